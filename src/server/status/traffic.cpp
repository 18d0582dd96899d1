#include "server/status/traffic.h"

#include <vector>

#include "server/service/exchange.h"
#include "server/service/random_id.h"
#include "server/status/request_log.h"

namespace heddle::server {

void Traffic::begin(const std::shared_ptr<Exchange>& exchange) {
  const std::lock_guard lock(mutex_);
  under_way_.emplace(exchange.get(), exchange);
}

void Traffic::end(const Exchange* exchange, const std::string& route, const LogEntry& entry, bool streamed,
                  uint64_t bytes) {
  if (log_) log_(log_line(entry));
  const std::lock_guard lock(mutex_);
  ++counts_.answered[{route, entry.status}];
  counts_.bytes += bytes;
  counts_.streams -= streamed;
  under_way_.erase(exchange);
  if (under_way_.empty()) quiet_.notify_all();
}

void Traffic::stream_began() {
  const std::lock_guard lock(mutex_);
  ++counts_.streams;
}

TrafficCounts Traffic::counts() const {
  const std::lock_guard lock(mutex_);
  TrafficCounts counts = counts_;
  counts.under_way = under_way_.size();
  return counts;
}

size_t Traffic::under_way() const {
  const std::lock_guard lock(mutex_);
  return under_way_.size();
}

void Traffic::cancel_all() {
  std::vector<std::shared_ptr<Exchange>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : under_way_)
      if (auto exchange = weak.lock()) all.push_back(std::move(exchange));
  }
  for (const auto& exchange : all) exchange->cancel();
}

void Traffic::wait_until_quiet() {
  std::unique_lock lock(mutex_);
  quiet_.wait(lock, [&] { return under_way_.empty(); });
}

}  // namespace heddle::server

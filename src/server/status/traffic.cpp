#include "server/status/traffic.h"

#include <vector>

#include "server/service/exchange.h"
#include "server/status/request_log.h"

namespace heddle::server {

void Traffic::begin(const std::shared_ptr<Exchange>& exchange) {
  const std::lock_guard lock(mutex_);
  in_progress_.emplace(exchange.get(), exchange);
}

void Traffic::end(const Exchange* exchange, const std::string& path, const LogEntry& entry, bool streamed,
                  uint64_t bytes) {
  if (log_) log_(log_line(entry));
  const std::lock_guard lock(mutex_);
  ++counts_.responses[{path, entry.status}];
  counts_.bytes += bytes;
  counts_.streams -= streamed;
  in_progress_.erase(exchange);
  if (in_progress_.empty()) idle_.notify_all();
}

void Traffic::stream_began() {
  const std::lock_guard lock(mutex_);
  ++counts_.streams;
}

TrafficCounts Traffic::counts() const {
  const std::lock_guard lock(mutex_);
  TrafficCounts counts = counts_;
  counts.in_progress = in_progress_.size();
  return counts;
}

size_t Traffic::in_progress() const {
  const std::lock_guard lock(mutex_);
  return in_progress_.size();
}

void Traffic::cancel_all() {
  std::vector<std::shared_ptr<Exchange>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : in_progress_)
      if (auto exchange = weak.lock()) all.push_back(std::move(exchange));
  }
  for (const auto& exchange : all) exchange->cancel(Cancelled::shutdown);
}

void Traffic::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return in_progress_.empty(); });
}

}  // namespace heddle::server

#include "server/status/traffic.h"

#include <fmt/chrono.h>

#include "server/api/json_text.h"
#include "server/service/exchange.h"

namespace heddle::server {
namespace {

class LogLine {
 public:
  template <class Value>
  void add(std::string_view name, const Value& value) {
    key(name);
    append_json(text_, value);
  }
  void add_unless_empty(std::string_view name, const std::string& value) {
    if (!value.empty()) add(name, std::string_view(value));
  }
  void add_unless_empty(std::string_view name, const std::vector<std::string>& values) {
    if (values.empty()) return;
    key(name);
    append_json_list(text_, values, [this](const std::string& value) { append_json(text_, std::string_view(value)); });
  }
  void add_ms(std::string_view name, double seconds) {
    key(name);
    fmt::format_to(std::back_inserter(text_), "{:.3f}", seconds * 1e3);
  }
  std::string take() { return std::move(text_ += "}"); }

 private:
  void key(std::string_view name) { text_.append(text_.size() > 1 ? ",\"" : "\"").append(name).append("\":"); }
  std::string text_ = "{";
};

}  // namespace

std::string iso_time(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const int64_t ms = duration_cast<milliseconds>(time.time_since_epoch()).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::time_t(ms / 1000)), ms % 1000);
}

std::string log_line(const LogEntry& entry) {
  LogLine line;
  line.add("time", std::string_view(iso_time(entry.time)));
  line.add("id", std::string_view(entry.id));
  line.add("peer", std::string_view(entry.peer));
  if (!entry.method.empty()) line.add("method", std::string_view(entry.method));
  if (!entry.path.empty()) line.add("path", std::string_view(entry.path));
  line.add("status", uint64_t(entry.status));
  line.add_unless_empty("model", entry.model);
  if (entry.tokens) {
    line.add("prompt_tokens", entry.tokens->prompt);
    line.add("completion_tokens", entry.tokens->completion);
    line.add("cached_tokens", entry.tokens->cached);
  }
  line.add_unless_empty("finish_reasons", entry.finish_reasons);
  if (entry.queue) line.add_ms("queue_ms", *entry.queue);
  if (entry.first_token) line.add_ms("first_token_ms", *entry.first_token);
  line.add_ms("total_ms", entry.total);
  line.add_unless_empty("user", entry.user);
  line.add_unless_empty("error", entry.error);
  line.add_unless_empty("request", entry.body);
  line.add_unless_empty("completions", entry.completions);
  return line.take();
}

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

// The requests in progress, and counts of those before: for shutting down, for /metrics and for the log.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace heddle::server {

class Exchange;
struct LogEntry;

struct TrafficCounts {
  std::map<std::pair<std::string, unsigned>, uint64_t> responses;  // by path of the route and status
  uint64_t bytes = 0;                                              // of response bodies
  uint64_t in_progress = 0, streams = 0;                           // now
};

class Traffic {
 public:
  Traffic(std::function<void(std::string)> log, bool log_prompts) : log_(std::move(log)), log_prompts_(log_prompts) {}

  bool logs_prompts() const { return log_ && log_prompts_; }

  void begin(const std::shared_ptr<Exchange>& exchange);
  // After this the exchange uses nothing of the service. `path`: that of the route.
  void end(const Exchange* exchange, const std::string& path, const LogEntry& entry, bool streamed, uint64_t bytes);
  void stream_began();

  TrafficCounts counts() const;
  size_t in_progress() const;
  void cancel_all();
  void wait_until_idle();

 private:
  const std::function<void(std::string)> log_;
  const bool log_prompts_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable idle_;
  std::unordered_map<const Exchange*, std::weak_ptr<Exchange>> in_progress_;
  TrafficCounts counts_;
};

}  // namespace heddle::server

// What is under way over HTTP, and what was: counted for /metrics, and a line each for the log.
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

// As they are at one moment.
struct TrafficCounts {
  std::map<std::pair<std::string, unsigned>, uint64_t> answered;  // by route and status
  uint64_t bytes = 0;                                             // of the bodies of answers
  uint64_t under_way = 0, streams = 0;                            // now
};

class Traffic {
 public:
  Traffic(std::function<void(std::string)> log, bool log_prompts) : log_(std::move(log)), log_prompts_(log_prompts) {}

  bool logs_prompts() const { return log_ && log_prompts_; }

  void begin(const std::shared_ptr<Exchange>& exchange);
  // It is answered: nothing of the service is used for it any more. `route`: as the service knows it.
  void end(const Exchange* exchange, const std::string& route, const LogEntry& entry, bool streamed, uint64_t bytes);
  void stream_began();

  TrafficCounts counts() const;
  size_t under_way() const;
  void cancel_all();
  void wait_until_quiet();

 private:
  const std::function<void(std::string)> log_;
  const bool log_prompts_;
  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable quiet_;
  std::unordered_map<const Exchange*, std::weak_ptr<Exchange>> under_way_;
  TrafficCounts counts_;
};

}  // namespace heddle::server

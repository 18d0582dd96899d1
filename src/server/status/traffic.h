// The log, a line of JSON for each request; and the requests in progress and counts of those before, for shutting down
// and for /metrics.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/api/generation.h"

namespace heddle::server {

class Exchange;

struct LogEntry {
  std::chrono::system_clock::time_point time;  // when the request arrived
  std::string id, peer, method, path;          // method and path are empty if they could not be read
  unsigned status = 0;                         // 499: the client closed the connection before the end
  double total = 0;                            // seconds
  // What follows is left out of the line where it is empty.
  std::string model;
  std::optional<Usage> tokens;
  std::vector<std::string> finish_reasons;  // of its completions
  std::optional<double> queue;              // seconds in the engine's queue
  std::optional<double> first_token;        // seconds from the arrival to the first token
  std::string user, error;
  std::string body;                      // of the request, where prompts are logged
  std::vector<std::string> completions;  // their texts, where prompts are logged
};

std::string log_line(const LogEntry& entry);                       // without a line end
std::string iso_time(std::chrono::system_clock::time_point time);  // "2026-11-15T08:03:59.250Z"

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

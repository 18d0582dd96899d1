// The state of the server and what is recorded of requests: GET /health..., /v1/models..., /v1/effective-config and
// /metrics; the log, a line of JSON for each request; counts for /metrics; and traces, where the time of a request
// went.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/metrics.h"
#include "engine/request.h"
#include "server/api/generation.h"
#include "server/service/models.h"

namespace heddle::server {

class Exchange;
struct Call;

// What is logged of a request.
struct LogEntry {
  std::chrono::system_clock::time_point time;  // when the request arrived
  std::string id, peer, method, path;          // method and path are empty if they could not be read
  unsigned status = 0;                         // 499: the client closed the connection before the end
  double total = 0;                            // seconds
  // Empty members are left out of the line.
  std::string model;
  std::optional<Usage> tokens;
  std::vector<std::string> finish_reasons;  // of its completions
  std::optional<double> queue;              // seconds in the engine's queue
  std::optional<double> first_token;        // seconds from the arrival to the first token
  std::string user, error;
  std::string body;                      // of the request, where prompts are logged
  std::vector<std::string> completions;  // their texts, where prompts are logged
  std::string trace;                     // where the time went, as trace_json() writes it; not for the log
};

std::string log_line(const LogEntry& entry);                       // without a line end
std::string iso_time(std::chrono::system_clock::time_point time);  // "2026-11-15T08:03:59.250Z"

struct TrafficCounts {
  std::map<std::pair<std::string, unsigned>, uint64_t> responses;  // by path of the route and status
  uint64_t bytes = 0;                                              // of response bodies
  uint64_t in_progress = 0, streams = 0;                           // now
  uint64_t connections_refused = 0;                                // for lack of descriptors
  uint64_t log_lines_lost = 0;
};

// The requests in progress, for shutting down, and counts of those before.
class Traffic {
 public:
  Traffic(std::function<void(std::string)> log, bool log_prompts) : log_(std::move(log)), log_prompts_(log_prompts) {}

  bool logs_prompts() const { return log_ && log_prompts_; }

  void begin(const std::shared_ptr<Exchange>& exchange);
  // After this the exchange uses nothing of the service. `path`: that of the route.
  void end(const Exchange* exchange, const std::string& path, const LogEntry& entry, bool streamed, uint64_t bytes);
  void stream_began();
  void connection_refused();

  TrafficCounts counts() const;
  size_t in_progress() const;
  void drain();             // requests that come from now on are not counted by the next
  size_t to_drain() const;  // requests in progress that came before drain()
  void cancel_all();
  void beat(double seconds);  // see Exchange::beat
  // JSON: the last requests for the engine with their traces, the newest first, and those in progress.
  std::string traces() const;
  void wait_until_idle();

 private:
  std::vector<std::shared_ptr<Exchange>> all() const;

  const std::function<void(std::string)> log_;
  const bool log_prompts_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable idle_;
  std::unordered_map<const Exchange*, std::weak_ptr<Exchange>> in_progress_;
  std::unordered_set<const Exchange*> late_;  // of these: they came after drain()
  bool draining_ = false;
  TrafficCounts counts_;
  std::deque<std::string> traces_;  // JSON, the newest first
};

enum class TraceLevel { none, request, step };
TraceLevel trace_level(const std::string* header);  // "request" or "step", null: none; anything else is an ApiError

// Seconds before the engine has the request.
struct Preparation {
  double waiting = 0;  // for a thread
  double parse = 0, render = 0, encode = 0;
};
class PreparationTimer {
 public:
  explicit PreparationTimer(const Exchange& exchange);
  void parsed() { times_.parse = lap(); }
  void rendered() { times_.render = lap(); }
  void encoded() { times_.encode = lap(); }
  const Preparation& times() const { return times_; }

 private:
  double lap();  // seconds since the last
  Clock::time_point start_ = Clock::now();
  Preparation times_;
};

struct CompletionTrace {
  uint32_t index = 0;
  engine::Timing timing;
  std::shared_ptr<const std::vector<engine::StepTime>> steps;
};

// A JSON object with times in milliseconds; empty for TraceLevel::none. `total`: seconds since the request arrived.
std::string trace_json(TraceLevel level, const Preparation& preparation,
                       const std::vector<CompletionTrace>& completions, double total);

constexpr std::string_view models_path = "/v1/models/";  // followed by a model's name

void show_live(const Call& call);             // 200 as long as the process responds
void show_ready(const Call& call);            // 200 if requests are accepted, 503 with the reason otherwise
void list_models(const Call& call);           // the models, and which are loaded
void show_model(const Call& call);            // one of them by name
ListedModel model_in_path(const Call& call);  // whose name its path ends with; throws an ApiError 404 if there is none
void load_model(const Call& call);            // POST /models/load: returns at once
void unload_model(const Call& call);          // POST /models/unload: as soon as it has no requests
void show_version(const Call& call);          // {"version": ...}
void show_load(const Call& call);             // {"server_load": N}, the requests in progress besides this one
void show_config(const Call& call);           // the settings in force, and what was measured since a model was loaded
void show_metrics(const Call& call);          // metrics_text()
void show_traces(const Call& call);           // where the time of the last requests went

std::string model_json(const ListedModel& model);  // as lists have it

struct ModelMetrics {
  std::string name;
  std::optional<engine::Metrics> engine = {};  // while it is loaded
  ModelStatus status = ModelStatus::unloaded;
  uint64_t loads = 0, failures = 0, unloads = 0, waiting = 0;
};
// Prometheus' text format.
std::string metrics_text(const TrafficCounts& traffic, const std::vector<ModelMetrics>& models);

}  // namespace heddle::server

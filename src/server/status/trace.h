// Where the time of a request went, for clients that ask with X-Trace-Level.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/request.h"

namespace heddle::server {

class Exchange;

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

}  // namespace heddle::server

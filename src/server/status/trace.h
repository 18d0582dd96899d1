// Where the time of a request went, for clients that ask by X-Trace-Level.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"

namespace heddle::server {

enum class TraceLevel { none, request, step };
TraceLevel trace_level(const std::string* header);  // "request" or "step"; null: none; an ApiError for others

// Before the engine, in seconds.
struct Preparation {
  double waiting = 0;  // for a thread
  double parse = 0, render = 0, encode = 0;
};
struct AnswerTrace {
  uint32_t index = 0;
  engine::Timing timing;
  std::shared_ptr<const std::vector<engine::StepTime>> steps;
};

// JSON, an object; times in milliseconds. `total`: seconds since the request came.
std::string trace_json(TraceLevel level, const Preparation& preparation, const std::vector<AnswerTrace>& answers,
                       double total);

}  // namespace heddle::server

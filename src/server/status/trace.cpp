#include "server/status/trace.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "server/api/api_error.h"
#include "server/api/json_text.h"
#include "server/service/exchange.h"

namespace heddle::server {
namespace {

void append_step(std::string& out, const engine::StepTime& step) {
  fmt::format_to(
      std::back_inserter(out),
      R"({{"start_ms":{:.3f},"ms":{:.3f},"device_ms":{:.3f},"rows":{},"generated":{},"all_rows":{},"sequences":{}}})",
      step.start * 1e3, step.seconds * 1e3, step.device * 1e3, step.rows, step.generated, step.all_rows,
      step.sequences);
}

void append_completion(std::string& out, const CompletionTrace& completion, bool with_steps) {
  const engine::Timing& timing = completion.timing;
  fmt::format_to(
      std::back_inserter(out),
      R"({{"index":{},"queue_ms":{:.3f},"prompt_ms":{:.3f},"generation_ms":{:.3f},"device_ms":{:.3f},"steps":{})",
      completion.index, timing.queue * 1e3, timing.prompt * 1e3, timing.generating * 1e3, timing.device * 1e3,
      timing.steps);
  if (with_steps && completion.steps) {
    out += R"(,"step":)";
    append_json_list(out, *completion.steps, [&out](const engine::StepTime& step) { append_step(out, step); });
  }
  out += "}";
}

}  // namespace

TraceLevel trace_level(const std::string* header) {
  if (!header) return TraceLevel::none;
  if (*header == "request") return TraceLevel::request;
  if (*header == "step") return TraceLevel::step;
  throw bad_field("X-Trace-Level", "X-Trace-Level: expected request or step, found {}", in_quotes(*header));
}

PreparationTimer::PreparationTimer(const Exchange& exchange) : times_{.waiting = exchange.seconds()} {}

double PreparationTimer::lap() {
  const double seconds = seconds_since(start_);
  start_ = Clock::now();
  return seconds;
}

std::string trace_json(TraceLevel level, const Preparation& preparation,
                       const std::vector<CompletionTrace>& completions, double total) {
  if (level == TraceLevel::none) return {};
  std::string out = fmt::format(
      R"({{"total_ms":{:.3f},"waiting_ms":{:.3f},"parse_ms":{:.3f},"template_ms":{:.3f},"tokenize_ms":{:.3f},"completions":)",
      total * 1e3, preparation.waiting * 1e3, preparation.parse * 1e3, preparation.render * 1e3,
      preparation.encode * 1e3);
  append_json_list(out, completions, [&](const CompletionTrace& completion) {
    append_completion(out, completion, level == TraceLevel::step);
  });
  return out += "}";
}

}  // namespace heddle::server

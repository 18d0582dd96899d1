#include "server/status/trace.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "server/api/api_error.h"

namespace heddle::server {
namespace {

void append_step(std::string& out, const engine::StepTime& step) {
  fmt::format_to(
      std::back_inserter(out),
      R"({{"start_ms":{:.3f},"ms":{:.3f},"device_ms":{:.3f},"rows":{},"made":{},"all_rows":{},"sequences":{}}})",
      step.start * 1e3, step.seconds * 1e3, step.device * 1e3, step.rows, step.generated, step.all_rows,
      step.sequences);
}

void append_answer(std::string& out, const AnswerTrace& answer, bool with_steps) {
  const engine::Timing& timing = answer.timing;
  fmt::format_to(
      std::back_inserter(out),
      R"({{"index":{},"queue_ms":{:.3f},"prompt_ms":{:.3f},"making_ms":{:.3f},"device_ms":{:.3f},"steps":{})",
      answer.index, timing.queue * 1e3, timing.prompt * 1e3, timing.making * 1e3, timing.device * 1e3, timing.steps);
  if (with_steps && answer.steps) {
    out += R"(,"step":[)";
    for (const engine::StepTime& step : *answer.steps) {
      if (&step != answer.steps->data()) out += ",";
      append_step(out, step);
    }
    out += "]";
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

std::string trace_json(TraceLevel level, const Preparation& preparation, const std::vector<AnswerTrace>& answers,
                       double total) {
  if (level == TraceLevel::none) return {};
  std::string out = fmt::format(
      R"({{"total_ms":{:.3f},"waiting_ms":{:.3f},"parse_ms":{:.3f},"template_ms":{:.3f},"tokenize_ms":{:.3f},"answers":[)",
      total * 1e3, preparation.waiting * 1e3, preparation.parse * 1e3, preparation.render * 1e3,
      preparation.encode * 1e3);
  for (const AnswerTrace& answer : answers) {
    if (&answer != answers.data()) out += ",";
    append_answer(out, answer, level == TraceLevel::step);
  }
  return out += "]}";
}

}  // namespace heddle::server

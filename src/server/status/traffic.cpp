// The log, the requests in progress, and traces.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/utf8.h"
#include "server/api/api_error.h"
#include "server/api/json.h"
#include "server/service/exchange.h"
#include "server/status/status.h"

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

// A client may send a megabyte of it with each request.
std::string cut_for_log(const std::string& text) {
  constexpr size_t max_logged = 512;  // bytes
  if (text.size() <= max_logged) return text;
  size_t end = max_logged;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // at the beginning of a character
  return fmt::format("{}... ({} bytes)", std::string_view(text).substr(0, end), text.size());
}

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
  line.add_unless_empty("peer", entry.peer);
  line.add_unless_empty("method", cut_for_log(entry.method));
  line.add_unless_empty("path", cut_for_log(entry.path));
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
  line.add_unless_empty("user", cut_for_log(entry.user));
  line.add_unless_empty("error", cut_for_log(entry.error));
  line.add_unless_empty("request", entry.body);
  line.add_unless_empty("completions", entry.completions);
  return line.take();
}

namespace {

constexpr size_t kept_traces = 200;  // of about a kilobyte

// What an operator may see of a request: when and how long, not who and what.
std::string trace_line(LogEntry entry) {
  entry.peer = entry.user = entry.body = "";
  entry.completions.clear();
  std::string line = log_line(entry);
  line.back() = ',';
  return line.append(R"("trace":)").append(entry.trace.empty() ? "null" : entry.trace).append("}");
}

}  // namespace

void Traffic::begin(const std::shared_ptr<Exchange>& exchange) {
  const std::lock_guard lock(mutex_);
  in_progress_.emplace(exchange.get(), exchange);
  if (draining_) late_.insert(exchange.get());
}

void Traffic::end(const Exchange* exchange, const std::string& path, const LogEntry& entry, bool streamed,
                  uint64_t bytes) {
  if (log_) log_(log_line(entry));
  std::string trace = entry.tokens ? trace_line(entry) : std::string();  // others do not reach the engine
  const std::lock_guard lock(mutex_);
  if (!trace.empty()) traces_.push_front(std::move(trace));
  if (traces_.size() > kept_traces) traces_.pop_back();
  ++counts_.responses[{path, entry.status}];
  counts_.bytes += bytes;
  counts_.streams -= streamed;
  in_progress_.erase(exchange);
  late_.erase(exchange);
  if (in_progress_.empty()) idle_.notify_all();
}

void Traffic::stream_began() {
  const std::lock_guard lock(mutex_);
  ++counts_.streams;
}

void Traffic::connection_refused() {
  const std::lock_guard lock(mutex_);
  ++counts_.connections_refused;
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

void Traffic::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

size_t Traffic::to_drain() const {
  const std::lock_guard lock(mutex_);
  return in_progress_.size() - late_.size();
}

std::vector<std::shared_ptr<Exchange>> Traffic::all() const {
  std::vector<std::shared_ptr<Exchange>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, weak] : in_progress_)
    if (auto exchange = weak.lock()) all.push_back(std::move(exchange));
  return all;
}

void Traffic::cancel_all() {
  for (const auto& exchange : all()) exchange->cancel(Cancelled::shutdown);
}

void Traffic::beat(double seconds) {
  for (const auto& exchange : all()) exchange->beat(seconds);
}

std::string Traffic::traces() const {
  std::string out = R"({"object":"list","data":[)";
  {
    const std::lock_guard lock(mutex_);
    out += fmt::format("{}", fmt::join(traces_, ","));
  }
  std::vector<std::shared_ptr<Exchange>> running = all();
  std::erase_if(running, [](const auto& exchange) { return exchange->request().method != "POST"; });
  out += R"(],"in_progress":)";
  append_json_list(out, running, [&](const std::shared_ptr<Exchange>& exchange) {
    LogLine line;
    line.add("id", std::string_view(exchange->id()));
    line.add("path", std::string_view(cut_for_log(exchange->request().path)));
    line.add_ms("total_ms", exchange->seconds());
    out += line.take();
  });
  return out += "}";
}

void Traffic::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return in_progress_.empty(); });
}

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

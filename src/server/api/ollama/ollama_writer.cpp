// An answer as lines of JSON, or as one document. A call is written when it is complete: its arguments are an object.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/json.h"
#include "server/api/ollama/ollama.h"
#include "server/api/openai/openai.h"
#include "server/service/exchange.h"
#include "server/status/status.h"

namespace heddle::server {
namespace {

// {"model":...,"created_at":...
void append_ollama_head(std::string& out, std::string_view model) {
  out += R"({"model":)";
  append_json(out, model);
  out += R"(,"created_at":)";
  append_json(out, iso_time(std::chrono::system_clock::now()));
}

void append_duration(std::string& out, std::string_view name, double seconds) {
  out.append(",\"").append(name).append("\":");
  append_json(out, uint64_t(std::max(seconds, 0.) * 1e9));
}
void append_count(std::string& out, std::string_view name, uint64_t count) {
  out.append(",\"").append(name).append("\":");
  append_json(out, count);
}

}  // namespace

std::string ollama_error(const ApiError& error) {
  std::string out = R"({"error":)";
  append_json(out, std::string_view(error.what()));
  return out += "}";
}

std::string ollama_loaded(OllamaForm form, std::string_view model, std::string_view reason) {
  std::string out;
  append_ollama_head(out, model);
  out += form == OllamaForm::chat ? R"(,"message":{"role":"assistant","content":""})" : R"(,"response":"")";
  out += R"(,"done":true,"done_reason":)";
  append_json(out, reason);
  return out += "}";
}

OllamaWriter::OllamaWriter(Exchange& exchange, std::string model, OllamaForm form, bool stream,
                           const GenerationRequest& request, ChatReply reply)
    : AnswerWriter(request, std::move(reply)),
      exchange_(exchange),
      model_(std::move(model)),
      form_(form),
      stream_(stream) {}

void OllamaWriter::on_accepted() {
  if (stream_) exchange_.start_stream("application/x-ndjson", "");
}

void OllamaWriter::on_content(std::string_view text) {
  chunk_.content += text;
  flush();
}

void OllamaWriter::on_reasoning(std::string_view text) {
  chunk_.thinking += text;
  flush();
}

void OllamaWriter::on_call(const std::string& id, const std::string& name) { call_ = {id, name, ""}; }

void OllamaWriter::on_arguments(std::string_view text) { call_.arguments += text; }

void OllamaWriter::on_call_end() {
  std::string& arguments = call_.arguments;
  if (arguments.empty()) arguments = "{}";
  if (!nlohmann::json::parse(arguments, nullptr, false).is_object()) return;  // cut off
  // Otherwise as they were generated: the order of the keys is the model's. Breaks between tokens would end the line;
  // in strings they are escaped.
  std::erase_if(arguments, [](char c) { return c == '\n' || c == '\r'; });
  std::string& out = chunk_.calls;
  if (!out.empty()) out += ",";
  out += R"({"id":)";
  append_json(out, call_.id);
  out += R"(,"function":{"index":)";
  append_json(out, calls_++);
  out += R"(,"name":)";
  append_json(out, call_.name);
  out.append(R"(,"arguments":)").append(arguments).append("}}");
  flush();
}

void OllamaWriter::on_answer_end(const AnswerEnd& end) { done_reason_ = end.is_cut() ? "length" : "stop"; }

void OllamaWriter::on_logprobs(std::vector<TokenLogprobs> logprobs) {
  std::move(logprobs.begin(), logprobs.end(), std::back_inserter(chunk_.logprobs));
}

// The members that have the text.
std::string OllamaWriter::take_chunk() {
  const Chunk chunk = std::exchange(chunk_, {});
  std::string out;
  const bool is_chat = form_ == OllamaForm::chat;
  out += is_chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"response":)";
  append_json(out, chunk.content);
  if (!chunk.thinking.empty()) {
    out += R"(,"thinking":)";
    append_json(out, chunk.thinking);
  }
  if (!chunk.calls.empty()) out.append(R"(,"tool_calls":[)").append(chunk.calls).append("]");
  if (is_chat) out += "}";
  if (!chunk.logprobs.empty()) {
    out += R"(,"logprobs":)";
    append_token_list(out, chunk.logprobs);
  }
  return out;
}

void OllamaWriter::flush() {
  if (!stream_) return;
  std::string line;
  append_ollama_head(line, model_);
  line += take_chunk();
  exchange_.write(line += ",\"done\":false}\n");
}

void OllamaWriter::on_end(const Usage& usage, std::string_view trace) {
  std::string out;
  append_ollama_head(out, model_);
  out += take_chunk();
  out += R"(,"done":true,"done_reason":)";
  append_json(out, done_reason_);
  const engine::Timing timing = usage.completions.empty() ? engine::Timing() : usage.completions[0].timing;
  const double total = exchange_.seconds(), computing = timing.prompt + timing.generating;
  append_duration(out, "total_duration", total);
  append_duration(out, "load_duration", total - computing);  // what the request took besides
  append_count(out, "prompt_eval_count", usage.prompt);
  append_duration(out, "prompt_eval_duration", timing.prompt);
  append_count(out, "eval_count", usage.completion);
  append_duration(out, "eval_duration", timing.generating);
  if (!trace.empty()) out.append(R"(,"trace":)").append(trace);
  out += "}";
  if (!stream_) return exchange_.send_json(std::move(out));
  exchange_.write(out += "\n");
  exchange_.finish();
}

void OllamaWriter::on_error(const ApiError& error) {
  if (exchange_.started())
    exchange_.fail_stream(error, ollama_error(error) + "\n");
  else
    exchange_.fail(error);
}

}  // namespace heddle::server

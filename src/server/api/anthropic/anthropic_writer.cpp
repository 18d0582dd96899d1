// The response of POST /v1/messages.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/anthropic/anthropic.h"
#include "server/api/json.h"
#include "server/service/exchange.h"

namespace heddle::server {
namespace {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// Prompt tokens are those that were computed or those that were read from the prefix cache.
void append_tokens(std::string& out, const Usage& usage) {
  out += fmt::format(
      R"("input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},"output_tokens":{},)"
      R"("output_tokens_details":null,"server_tool_use":null)",
      usage.prompt - usage.cached, usage.cached, usage.completion);
}

std::string_view stop_reason(AnswerEnd::Reason reason) {
  switch (reason) {
    case AnswerEnd::Reason::end_token:
      return "end_turn";
    case AnswerEnd::Reason::stop_string:
      return "stop_sequence";
    case AnswerEnd::Reason::calls:
      return "tool_use";
    case AnswerEnd::Reason::max_tokens:
      return "max_tokens";
    case AnswerEnd::Reason::context:
      return "model_context_window_exceeded";
  }
  return "end_turn";
}

// "stop_reason" and "stop_sequence".
std::string end_members(const AnswerEnd& end) {
  std::string out = fmt::format(R"("stop_reason":"{}","stop_sequence":)", stop_reason(end.reason));
  if (end.reason == AnswerEnd::Reason::stop_string)
    append_json(out, end.stop_string);
  else
    out += "null";
  return out;
}

constexpr std::string_view not_ended = R"("stop_reason":null,"stop_sequence":null)";

}  // namespace

MessageWriter::MessageWriter(Exchange& exchange, MessageHead head, MessageOptions options,
                             const GenerationRequest& request, const ChatReply& reply)
    : AnswerWriter(request, reply),
      exchange_(exchange),
      head_(std::move(head)),
      options_(options),
      prompt_tokens_(request.prompts.at(0).size()) {}

void MessageWriter::on_accepted() {
  if (!options_.stream) return;
  exchange_.start_events("");
  // how much of the prompt is in the cache is known at the end, in message_delta
  write_event("message_start", R"(,"message":)" + message("", not_ended, {.prompt = prompt_tokens_}) + "}");
  write_event("ping", "");
}

// Text begins with what is not white space: calls may be apart from each other, and from thoughts, by empty lines.
void MessageWriter::on_content(std::string_view text) {
  if (block_ != Block::text) {
    space_ += text;
    if (is_blank(text)) return;
    const std::string first = std::move(space_);
    begin_block(Block::text, R"({"type":"text","citations":null)");
    return write_delta("text_delta", "text", first);
  }
  write_delta("text_delta", "text", text);
}

void MessageWriter::on_reasoning(std::string_view text) {
  if (block_ != Block::thinking) begin_block(Block::thinking, R"({"type":"thinking")");
  if (options_.shows_thinking)
    write_delta("thinking_delta", "thinking", text);
  else
    text_ += text;
}

void MessageWriter::on_call(const std::string& id, const std::string& name) {
  std::string start = R"({"type":"tool_use","caller":{"type":"direct"},"id":)";
  append_json(start, id);
  start += R"(,"name":)";
  append_json(start, name);
  begin_block(Block::tool_use, std::move(start));
}

void MessageWriter::on_arguments(std::string_view text) { write_delta("input_json_delta", "partial_json", text); }

void MessageWriter::begin_block(Block kind, std::string start) {
  end_block();
  block_ = kind;
  start_ = std::move(start);
  text_.clear();
  space_.clear();
  if (!options_.stream) return;
  std::string members = fmt::format(R"(,"index":{},"content_block":)", index_);
  append_block(members);
  write_event("content_block_start", members);
}

void MessageWriter::write_delta(std::string_view type, std::string_view member, std::string_view text) {
  if (!options_.stream) {
    text_ += text;
    return;
  }
  std::string members = fmt::format(R"(,"index":{},"delta":{{"type":"{}","{}":)", index_, type, member);
  append_json(members, text);
  write_event("content_block_delta", members += "}");
}

void MessageWriter::end_block() {
  if (block_ == Block::none) return;
  if (options_.stream) {
    if (block_ == Block::thinking) write_delta("signature_delta", "signature", thinking_signature(text_));
    write_event("content_block_stop", fmt::format(R"(,"index":{})", index_));
  } else {
    if (index_ > 0) content_ += ",";
    append_block(content_);
  }
  ++index_;
  block_ = Block::none;
}

// At the beginning of a streamed block there is no text, nor a signature.
void MessageWriter::append_block(std::string& out) const {
  out += start_;
  if (block_ == Block::tool_use) {
    const auto input = nlohmann::ordered_json::parse(text_, nullptr, false);
    out += R"(,"input":)" + (input.is_object() ? input.dump() : "{}");  // one that was cut off is no JSON
  } else if (block_ == Block::thinking) {
    out += R"(,"thinking":)";
    append_json(out, options_.shows_thinking ? text_ : "");
    out += R"(,"signature":)";
    append_json(out, options_.stream ? "" : thinking_signature(options_.shows_thinking ? "" : text_));
  } else {
    out += R"(,"text":)";
    append_json(out, text_);
  }
  out += "}";
}

void MessageWriter::on_answer_end(const AnswerEnd& end) {
  end_block();
  end_ = end_members(end);
}

void MessageWriter::on_end(const Usage& usage, std::string_view trace) {
  const std::string last = trace.empty() ? "" : fmt::format(R"(,"trace":{})", trace);
  if (!options_.stream) return exchange_.send_json(message(content_, end_, usage) + last + "}");
  std::string members = fmt::format(R"(,"delta":{{{},"container":null,"stop_details":null}},"usage":{{)", end_);
  append_tokens(members, usage);
  write_event("message_delta", members + "}" + last);
  write_event("message_stop", "");
  exchange_.finish();
}

void MessageWriter::on_error(const ApiError& error) {
  if (!exchange_.started()) return exchange_.fail(error);
  ApiError named = error;
  named.request_id = exchange_.id();
  exchange_.fail_stream(error, "event: error\ndata: " + anthropic_error(named) + "\n\n");
}

void MessageWriter::write_event(std::string_view type, std::string_view members) {
  exchange_.write(fmt::format("event: {0}\ndata: {{\"type\":\"{0}\"{1}}}\n\n", type, members));
}

// Without the closing brace.
std::string MessageWriter::message(std::string_view content, std::string_view end, const Usage& usage) const {
  std::string out = R"({"id":)";
  append_json(out, head_.id);
  out += R"(,"type":"message","role":"assistant","model":)";
  append_json(out, head_.model);
  out += fmt::format(R"(,"content":[{}],{},"container":null,"diagnostics":null,"stop_details":null,"usage":{{)",
                     content, end);
  append_tokens(out, usage);
  return out += R"(,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null})";
}

}  // namespace heddle::server

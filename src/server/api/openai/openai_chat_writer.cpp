// The response of a chat: choices with messages, or chunks with deltas. The text of an answer is read as it comes: its
// thought, its content and its calls are different members.
#include "server/api/json.h"
#include "server/api/openai/openai_chat.h"

namespace heddle::server {
namespace {

void append_chat_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens) {
  out += R"({"content":)";
  append_token_list(out, tokens);
  out += R"(,"refusal":null})";
}

void append_chat_end(std::string& out, const Choice& choice) {
  append_choice_end(out, choice, [&out](const auto& tokens) { append_chat_logprobs(out, tokens); });
}

// {"id":...,"type":"function","function":{"name":...,"arguments":...}} without the opening brace.
void append_call(std::string& out, std::string_view id, std::string_view name, std::string_view arguments) {
  out += R"("id":)";
  append_json(out, id);
  out += R"(,"type":"function","function":{"name":)";
  append_json(out, name);
  out += R"(,"arguments":)";
  append_json(out, arguments);
  out += "}}";
}

}  // namespace

ChatWriter::ChatWriter(Exchange& exchange, const OpenAiHead& head, StreamOptions options,
                       const GenerationRequest& request, const ChatReply& reply)
    : OpenAiWriter(exchange, head, {"chat.completion", "chat.completion.chunk"}, options, request),
      answers_(request, reply),
      messages_(request.prompts.size() * request.n) {}

void ChatWriter::on_text(uint32_t index, TextDelta delta) {
  for (AnswerEvent& event : answers_.push(index, std::move(delta))) write_event(index, std::move(event));
}

void ChatWriter::on_finish(uint32_t index, const Finish& finish) {
  for (AnswerEvent& event : answers_.finish(index)) write_event(index, std::move(event));
  std::string_view reason = openai_name(finish);
  if (reason == "stop" && answers_.calls(index) > 0) reason = "tool_calls";
  end_choice(index, reason, answers_.rest(index));
}

void ChatWriter::write_event(uint32_t index, AnswerEvent event) {
  Message& message = messages_[index];
  Choice part{.index = index};
  using Kind = AnswerEvent::Kind;
  switch (event.kind) {
    case Kind::content:
      part.text = std::move(event.text);
      break;
    case Kind::reasoning:
      if (!is_stream()) message.reasoning += event.text;
      part.members = R"("reasoning_content":)";
      append_json(part.members, event.text);
      break;
    case Kind::call_begin:
      message.calls.push_back({event.id, event.text, {}});
      part.members = fmt::format(R"("tool_calls":[{{"index":{},)", event.call);
      append_call(part.members, event.id, event.text, "");
      part.members += "]";
      break;
    case Kind::arguments:
      if (!is_stream()) message.calls.back().arguments += event.text;
      part.members = fmt::format(R"("tool_calls":[{{"index":{},"function":{{"arguments":)", event.call);
      append_json(part.members, event.text);
      part.members += "}}]";
      break;
    case Kind::call_end:
      return;
  }
  if (!is_stream()) part.members.clear();
  add_part(std::move(part), std::move(event.logprobs));
}

void ChatWriter::append_choice(std::string& out, const Choice& choice) const {
  const Message& message = messages_[choice.index];
  const bool has_calls = !message.calls.empty();
  append_index(out, choice.index);
  out += R"(,"message":{"role":"assistant","content":)";
  if (has_calls && choice.text.empty())
    out += "null";
  else
    append_json(out, choice.text);
  if (!message.reasoning.empty()) {
    out += R"(,"reasoning_content":)";
    append_json(out, message.reasoning);
  }
  if (has_calls) {
    out += R"(,"tool_calls":)";
    append_json_list(out, message.calls, [&out](const ToolCall& call) {
      out += "{";
      append_call(out, call.id, call.name, call.arguments);
    });
  }
  out += R"(,"refusal":null})";
  append_chat_end(out, choice);
}

void ChatWriter::append_first_chunk(std::string& out, uint32_t index) const {
  append_index(out, index);
  out += R"(,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null})";
}

void ChatWriter::append_chunk(std::string& out, const Choice& part) {
  append_index(out, part.index);
  out += R"(,"delta":{)";
  if (!part.members.empty()) {
    out += part.members;
  } else if (part.finish_reason.empty()) {
    out += R"("content":)";
    append_json(out, part.text);
  }
  out += "}";
  append_chat_end(out, part);
}

}  // namespace heddle::server

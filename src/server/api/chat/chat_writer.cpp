// The response of a chat: choices with messages, or chunks with deltas. The text of an answer is read as it comes: its
// thought, its content and its calls are different members.
#include <array>
#include <random>

#include "server/api/chat/chat.h"
#include "server/api/json.h"
#include "server/service/exchange.h"

namespace heddle::server {
namespace {

using chat::ChatEvent;

// {"token":...,"logprob":...,"bytes":[...] without the closing brace.
void append_token(std::string& out, const TokenLogprob& token) {
  out += R"({"token":)";
  append_json(out, token.bytes);
  out += R"(,"logprob":)";
  append_logprob(out, token.log_probability);
  out += R"(,"bytes":)";
  append_json_list(out, token.bytes, [&out](char byte) { append_json(out, uint64_t(uint8_t(byte))); });
}

// A list of tokens, each with its bytes and the most likely tokens in its place.
void append_chat_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens) {
  out += R"({"content":)";
  append_json_list(out, tokens, [&out](const TokenLogprobs& one) {
    append_token(out, one.token);
    out += R"(,"top_logprobs":)";
    append_json_list(out, one.top, [&out](const TokenLogprob& top) {
      append_token(out, top);
      out += "}";
    });
    out += "}";
  });
  out += R"(,"refusal":null})";
}

void append_chat_end(std::string& out, const Choice& choice) {
  append_choice_end(out, choice, [&out](const auto& tokens) { append_chat_logprobs(out, tokens); });
}

// Nine letters and digits, as templates of Mistral want them.
std::string nine_letters() {
  static constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device random;
  std::string id;
  while (id.size() < 9) id += letters[std::uniform_int_distribution<size_t>(0, letters.size() - 1)(random)];
  return id;
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
    : OpenAiWriter(exchange, head, {"chat.completion", "chat.completion.chunk"}, options, request), reply_(reply) {
  if (!reply_.format) return;
  const chat::ParserOptions how{.in_thought = reply_.in_thought, .calls = reply_.tools != nullptr};
  for (size_t i = 0; i < request.prompts.size() * request.n; ++i)
    messages_.push_back({.parser = {reply_.format, reply_.tools, how}});
}

void ChatWriter::on_text(uint32_t index, TextDelta delta) {
  if (messages_.empty()) return OpenAiWriter::on_text(index, std::move(delta));
  Message& message = messages_[index];
  std::move(delta.logprobs.begin(), delta.logprobs.end(), std::back_inserter(message.logprobs));
  add(index, message.parser.push(delta.text));
}

void ChatWriter::on_finish(uint32_t index, const Finish& finish) {
  if (messages_.empty()) return OpenAiWriter::on_finish(index, finish);
  Message& message = messages_[index];
  add(index, message.parser.finish());
  std::string_view reason = openai_name(finish);
  if (reason == "stop" && message.parser.calls() > 0) reason = "tool_calls";
  end_choice(index, reason, std::move(message.logprobs));
}

void ChatWriter::add(uint32_t index, const std::vector<ChatEvent>& events) {
  for (const ChatEvent& event : events) write_event(index, event);
}

std::string ChatWriter::call_id(const ChatEvent& begin) const {
  switch (reply_.format->calls.ids) {
    case chat::CallFormat::Ids::nine:
      return nine_letters();
    case chat::CallFormat::Ids::functions:
      return fmt::format("functions.{}:{}", begin.text, begin.call);
    default:
      return random_id("call_");
  }
}

void ChatWriter::write_event(uint32_t index, const ChatEvent& event) {
  Message& message = messages_[index];
  Choice part{.index = index};
  switch (event.kind) {
    case ChatEvent::Kind::content:
      part.text = event.text;
      break;
    case ChatEvent::Kind::reasoning:
      if (!is_stream()) message.reasoning += event.text;
      part.members = R"("reasoning_content":)";
      append_json(part.members, event.text);
      break;
    case ChatEvent::Kind::call_begin:
      message.calls.push_back({call_id(event), event.text, {}});
      part.members = fmt::format(R"("tool_calls":[{{"index":{},)", event.call);
      append_call(part.members, message.calls.back().id, event.text, "");
      part.members += "]";
      break;
    case ChatEvent::Kind::arguments:
      if (!is_stream()) message.calls.back().arguments += event.text;
      part.members = fmt::format(R"("tool_calls":[{{"index":{},"function":{{"arguments":)", event.call);
      append_json(part.members, event.text);
      part.members += "}}]";
      break;
    case ChatEvent::Kind::call_end:
      return;
  }
  if (!is_stream()) part.members.clear();
  add_part(std::move(part), std::exchange(message.logprobs, {}));
}

void ChatWriter::append_choice(std::string& out, const Choice& choice) const {
  const Message* message = messages_.empty() ? nullptr : &messages_[choice.index];
  const bool has_calls = message && !message->calls.empty();
  append_index(out, choice.index);
  out += R"(,"message":{"role":"assistant","content":)";
  if (has_calls && choice.text.empty())
    out += "null";
  else
    append_json(out, choice.text);
  if (message && !message->reasoning.empty()) {
    out += R"(,"reasoning_content":)";
    append_json(out, message->reasoning);
  }
  if (has_calls) {
    out += R"(,"tool_calls":)";
    append_json_list(out, message->calls, [&out](const ToolCall& call) {
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

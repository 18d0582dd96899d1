// A chat's response: choices with messages, chunks with deltas.
#include "server/api/chat/chat.h"
#include "server/api/json_text.h"

namespace heddle::server {
namespace {

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

}  // namespace

void ChatWriter::append_choice(std::string& out, const Choice& choice) const {
  append_index(out, choice.index);
  out += R"(,"message":{"role":"assistant","content":)";
  append_json(out, choice.text);
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
  if (part.finish_reason.empty()) {
    out += R"("content":)";
    append_json(out, part.text);
  }
  out += "}";
  append_chat_end(out, part);
}

}  // namespace heddle::server

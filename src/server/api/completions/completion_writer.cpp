// A completion's response: choices with texts, and log-probabilities as four lists.
#include <algorithm>

#include "base/utf8.h"
#include "server/api/completions/completions.h"
#include "server/api/json_text.h"

namespace heddle::server {
namespace {

size_t characters_in(std::string_view text) {  // of valid UTF-8
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; }));
}

// A token that is not UTF-8 by itself is written byte by byte, as in OpenAI's API.
std::string spelling(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char byte : bytes) fmt::format_to(std::back_inserter(out), "\\x{:02x}", uint8_t(byte));
  return out;
}

// The most likely tokens, and the one that was picked, which need not be among them. Of tokens with the same
// spelling the most likely one.
void append_top(std::string& out, const TokenLogprobs& token) {
  std::vector<std::string> written;
  const auto append = [&](const TokenLogprob& one) {
    std::string text = spelling(one.bytes);
    if (std::find(written.begin(), written.end(), text) != written.end()) return;
    if (!written.empty()) out += ",";
    append_json(out, text);
    out += ":";
    append_logprob(out, one.log_probability);
    written.push_back(std::move(text));
  };
  out += "{";
  for (const TokenLogprob& one : token.top) append(one);
  append(token.token);
  out += "}";
}

// Where each token begins, in characters. One that continues a character begins where that character does. `offset`:
// where the text begins.
std::vector<uint64_t> offsets_of(const std::vector<TokenLogprobs>& tokens, std::string_view text, uint64_t offset) {
  std::vector<uint64_t> offsets;
  offsets.reserve(tokens.size());
  std::string held;  // an incomplete character
  bool first = offset == 0;
  for (const TokenLogprobs& token : tokens) {
    offsets.push_back(offset);
    if (!token.in_text) continue;
    held += token.token.bytes;
    // some tokenizers put a space before a text, which is not part of it
    if (first && held.starts_with(' ') && !text.starts_with(' ')) held.erase(0, 1);
    first = false;
    const size_t complete = held.size() - incomplete_utf8_tail(held);
    for (size_t at = 0; at < complete; ++offset) at += code_point_at(held, at).bytes;
    held.erase(0, complete);
  }
  return offsets;
}

// Four lists with one element per token.
void append_completion_logprobs(std::string& out, const std::vector<TokenLogprobs>& tokens, std::string_view text,
                                size_t offset) {
  const auto or_null = [&out](const TokenLogprobs& token, auto&& append) {
    if (token.has_logprob)
      append(token);
    else
      out += "null";
  };
  out += R"({"tokens":)";
  append_json_list(out, tokens, [&](const auto& token) { append_json(out, spelling(token.token.bytes)); });
  out += R"(,"token_logprobs":)";
  append_json_list(out, tokens, [&](const auto& token) {
    or_null(token, [&](const auto& one) { append_logprob(out, one.token.log_probability); });
  });
  out += R"(,"top_logprobs":)";
  append_json_list(out, tokens,
                   [&](const auto& token) { or_null(token, [&](const auto& one) { append_top(out, one); }); });
  out += R"(,"text_offset":)";
  append_json_list(out, offsets_of(tokens, text, offset), [&](uint64_t at) { append_json(out, at); });
  out += "}";
}

// `offset`: characters of the choice before this text.
void append_text_choice(std::string& out, const Choice& choice, size_t offset) {
  append_index(out, choice.index);
  out += R"(,"text":)";
  append_json(out, choice.text);
  append_choice_end(out, choice,
                    [&](const auto& tokens) { append_completion_logprobs(out, tokens, choice.text, offset); });
}

}  // namespace

void CompletionWriter::append_choice(std::string& out, const Choice& choice) const {
  append_text_choice(out, choice, 0);
}

void CompletionWriter::append_chunk(std::string& out, const Choice& part) {
  append_text_choice(out, part, characters_[part.index]);
  characters_[part.index] += characters_in(part.text);
}

}  // namespace heddle::server

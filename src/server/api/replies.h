// Answers of the API as JSON text.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::server {

struct Usage {
  uint64_t prompt = 0, completion = 0, cached = 0;  // tokens; cached: of the prompt, not computed again
};

struct TokenChance {
  std::string bytes;  // what the token stands for, possibly half a character
  double log_probability = 0;
};
struct TokenReport {  // of one token of a text
  TokenChance token;
  bool has_chance = true;        // false: the first token of a prompt
  std::vector<TokenChance> top;  // the most likely first
  bool in_text = true;           // false: a control token, which is not written
};

// What stands at the top of every answer to one request.
struct ReplyHead {
  std::string id;  // "chatcmpl-...", "cmpl-..."
  int64_t created = 0;
  std::string model;
};

// One of n answers. `finish`: "stop" or "length"; empty: not over yet (in chunks).
struct Choice {
  uint32_t index = 0;
  std::string text;
  std::string finish;
  std::optional<std::vector<TokenReport>> reports;  // where log-probabilities were asked for
};

// `trace`: JSON for the member "trace", or empty.
std::string chat_completion(const ReplyHead& head, std::span<const Choice> choices, const Usage& usage,
                            std::string_view trace);
std::string completion(const ReplyHead& head, std::span<const Choice> choices, const Usage& usage,
                       std::string_view trace);

// Pieces of a stream, as JSON without "data: ". `usage_comes`: every chunk has "usage": null, the last one the figures.
std::string chat_role_chunk(const ReplyHead& head, uint32_t index, bool usage_comes);
std::string chat_chunk(const ReplyHead& head, const Choice& choice, bool usage_comes);
// `offset`: characters of the text before this piece, for text_offset.
std::string completion_chunk(const ReplyHead& head, const Choice& choice, size_t offset, bool usage_comes);
// The last one of a stream: no choices. Without figures (null), what is left is the trace.
std::string chat_last_chunk(const ReplyHead& head, const Usage* usage, std::string_view trace);
std::string completion_last_chunk(const ReplyHead& head, const Usage* usage, std::string_view trace);

std::string embeddings(std::string_view model, std::span<const std::vector<float>> vectors, bool base64,
                       uint64_t prompt_tokens);

}  // namespace heddle::server

// Requests of the API as plain data. Every field of a body is read and checked, or refused by name: nothing is ignored.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "text/tokenizer.h"

namespace heddle::server {

// What requests are read against.
struct RequestRules {
  const text::Tokenizer& tokenizer;
  uint32_t vocabulary = 0;  // tokens the model has logits for
};

// What the requests that make text share. Steps of `sampling` that take texts (dry breakers) are token ids already.
struct Generation {
  engine::Sampling sampling;  // seed, biases, penalties, logprobs; without a word in the request the model's own
  std::optional<uint32_t> max_tokens;  // new tokens; none: until the context is full
  std::vector<std::string> stops;
  std::vector<uint32_t> stop_ids;
  bool ignore_eos = false;  // the model's own ends do not end it
  uint32_t n = 1;           // "n"
  bool stream = false, include_usage = false;
  int priority = 0;
  engine::Speculation speculation = engine::Speculation::automatic;
  bool reuse = true;  // "cache_prompt"
  std::string user;   // for the log
};

struct ChatRequest {
  std::string model;  // empty: not said
  Generation generation;
  std::string messages;  // JSON, a list, as templates take it: contents are texts, "developer" is "system"
  std::string extra;     // JSON, an object ("chat_template_kwargs"), or empty
  bool add_generation_prompt = true;
};

using Prompt = std::variant<std::string, std::vector<text::TokenId>>;

struct CompletionRequest {
  std::string model;
  Generation generation;
  std::vector<Prompt> prompts;  // at least one
  bool echo = false;
  uint32_t best_of = 1;  // at least generation.n
};

struct EmbeddingRequest {
  std::string model;
  std::vector<Prompt> inputs;  // at least one
  bool base64 = false;
  std::optional<uint32_t> dimensions;
  std::string user;
};

struct TokenizeRequest {
  std::string content;
  bool add_special = false, parse_special = true, with_pieces = false;
};
struct DetokenizeRequest {
  std::vector<text::TokenId> tokens;
  bool special = true;  // control tokens are written as well
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
ChatRequest chat_request(std::string_view body, const RequestRules& rules);
ChatRequest template_request(std::string_view body, const RequestRules& rules);  // of /apply-template: no generation
CompletionRequest completion_request(std::string_view body, const RequestRules& rules);
EmbeddingRequest embedding_request(std::string_view body, const RequestRules& rules);
TokenizeRequest tokenize_request(std::string_view body, const RequestRules& rules);
DetokenizeRequest detokenize_request(std::string_view body, const RequestRules& rules);

}  // namespace heddle::server

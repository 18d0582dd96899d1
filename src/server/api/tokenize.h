// Texts and token ids: the prompts of completions and embeddings, and POST /tokenize and /detokenize, the model's
// tokenizer alone.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/api/generation.h"
#include "server/api/json.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;

using Prompt = std::variant<std::string, std::vector<text::TokenId>>;

// A string, a list of token ids, or a list of such.
std::vector<Prompt> prompts_at(const Json& value, const std::string& place, const RequestRules& rules);
// A list of token ids below `bound`.
std::vector<text::TokenId> token_ids_at(const Json& list, const std::string& place, uint32_t bound);

// The tokens of one text. Throws an ApiError if it is far beyond the context, before all of it is tokenized.
std::vector<text::TokenId> encode_within(const ServedModel& model, std::string_view text, text::EncodeOptions options,
                                         const std::string& field);

// The tokens of each prompt. Throws an ApiError that names the field for a prompt that is empty, or that is longer than
// the context together with one completion token, if any were asked for.
std::vector<std::vector<text::TokenId>> encode(const ServedModel& model, const std::vector<Prompt>& prompts,
                                               const std::string& field, std::optional<uint32_t> max_tokens);
void expect_fits(const ServedModel& model, const std::string& field, size_t prompt, std::optional<uint32_t> max_tokens);

// llama.cpp's, with `content`, and vLLM's, with `prompt`: their responses differ. One with `messages` is a chat's.
struct TokenizeRequest {
  std::string model;  // empty: absent
  std::string content;
  bool add_special = false, parse_special = true;
  bool with_pieces = false;  // llama.cpp's: tokens with their texts
  bool is_vllm = false;
  bool return_strings = false;  // vLLM's: a list of their texts
};
struct DetokenizeRequest {
  std::string model;  // empty: absent
  std::vector<text::TokenId> tokens;
  bool special = true;  // write control tokens as well
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
TokenizeRequest read_tokenize(std::string_view body, const RequestRules& rules);
DetokenizeRequest read_detokenize(std::string_view body, const RequestRules& rules);

void tokenize(const Call& call);
void detokenize(const Call& call);

}  // namespace heddle::server

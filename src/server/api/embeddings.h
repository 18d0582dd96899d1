// POST /v1/embeddings: a vector of length 1 for each input, in OpenAI's API.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/tokenize.h"

namespace heddle::server {

struct Call;

struct EmbeddingRequest {
  std::string model;           // empty: absent
  std::vector<Prompt> inputs;  // at least one
  bool base64 = false;
  std::optional<uint32_t> dimensions;
  std::string user;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
EmbeddingRequest read_embedding(std::string_view body, const RequestRules& rules);
std::string embeddings_json(std::string_view model, std::span<const std::vector<float>> vectors, bool base64,
                            uint64_t prompt_tokens);

// Computes a vector for each input, and responds with what `write` makes of them. `field`: that of the body with the
// inputs, for errors; `user`: for the log.
using WriteEmbeddings = std::function<std::string(std::span<const std::vector<float>> vectors, uint64_t prompt_tokens)>;
void embed_inputs(const Call& call, std::vector<std::vector<text::TokenId>> inputs, std::string field, std::string user,
                  WriteEmbeddings write);
// Throws an ApiError unless vectors have as many values.
void expect_width(const Call& call, std::optional<uint32_t> dimensions);

void embeddings(const Call& call);

}  // namespace heddle::server

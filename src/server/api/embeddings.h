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

// Computes a vector for each input, and responds with what `write` makes of them. EmbedOptions::field: that of the body
// with the inputs, for errors; user: for the log.
using WriteEmbeddings = std::function<std::string(std::span<const std::vector<float>> vectors, uint64_t prompt_tokens)>;
struct EmbedOptions {
  std::string field, user;
  std::optional<uint32_t> dimensions = {};  // see cut_vectors()
  bool pool = true;                         // otherwise the states of a text's tokens, one after the other
};
void embed_inputs(const Call& call, std::vector<std::vector<text::TokenId>> inputs, EmbedOptions options,
                  WriteEmbeddings write);
// The first `dimensions` values of each vector, scaled to a length of 1 again: for models that were trained so that a
// prefix of their vectors is meaningful, which no file says. Unset: all.
void cut_vectors(std::vector<std::vector<float>>& vectors, std::optional<uint32_t> dimensions);
// Throws an ApiError if vectors have fewer values.
void expect_width(const Call& call, std::optional<uint32_t> dimensions);

void embeddings(const Call& call);

// llama.cpp's POST /embedding: as it is, a list of vectors for each text, one for each token where the model does not
// pool.
struct LlamaEmbeddingRequest {
  std::vector<Prompt> inputs;  // at least one
  bool normalise = true;       // embd_normalize 2; otherwise -1: as they are
};
LlamaEmbeddingRequest read_llama_embedding(std::string_view body, const RequestRules& rules);
void llama_embedding(const Call& call);

}  // namespace heddle::server

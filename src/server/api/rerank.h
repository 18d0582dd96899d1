// POST /v1/rerank: how well documents match a query, in the shape that Cohere, Jina, vLLM and llama.cpp share; and
// that of Text Embeddings Inference, which has `texts`.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"

namespace heddle::server {

struct Call;

struct RerankRequest {
  std::string model;  // empty: absent
  std::string query;
  std::vector<std::string> documents;  // at least one
  size_t top_n = SIZE_MAX;             // results to return: the best
  bool return_documents = false;
  size_t max_document = SIZE_MAX;  // tokens of a document: the rest is cut
  bool truncate = false;           // documents are cut to the context; otherwise too long ones are refused
  bool is_tei = false;             // with `texts`: the response is a list
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
RerankRequest read_rerank(std::string_view body, const RequestRules& rules);

// The best first, equal ones by the lower index. `scores`: one per document, from 0 to 1.
std::string rerank_json(std::string_view id, std::string_view model, const RerankRequest& request,
                        std::span<const float> scores, uint64_t tokens);

void rerank(const Call& call);

}  // namespace heddle::server

// POST /v1/completions: continuations of texts in OpenAI's API.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/openai/openai_request.h"
#include "server/api/prompts.h"

namespace heddle::server {

struct Call;

struct CompletionRequest {
  std::string model;  // empty: absent
  std::vector<Prompt> prompts;
  GenerationRequest generation;  // without the prompts
  StreamOptions stream;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
CompletionRequest read_completion(std::string_view body, const RequestRules& rules);

void completions(const Call& call);

}  // namespace heddle::server

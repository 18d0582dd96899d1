// How tokens are chosen, by the field names that OpenAI's API, llama.cpp and vLLM have for it.
#pragma once
#include "server/api/fields.h"
#include "server/api/generation.h"

namespace heddle::server {

// Fills request.sampling, all but the log-probabilities, and request.dry_sequence_breakers.
void read_sampling(Fields& fields, const RequestRules& rules, GenerationRequest& request);

}  // namespace heddle::server

// Fields that chats and completions of OpenAI's API share.
#pragma once
#include "server/api/fields.h"
#include "server/api/generation.h"

namespace heddle::server {

// How the response is sent.
struct StreamOptions {
  bool stream = false;         // as server-sent events
  bool include_usage = false;  // in the last of them
};
StreamOptions read_stream_options(Fields& fields);

// How tokens are chosen, by the field names of OpenAI's API, llama.cpp and vLLM: fills request.sampling, all but the
// log-probabilities, and request.dry_sequence_breakers.
void read_sampling(Fields& fields, const RequestRules& rules, GenerationRequest& request);

// The above, and everything else but prompts, max_tokens, best_of, echo and log-probabilities.
void read_generation(Fields& fields, const RequestRules& rules, GenerationRequest& request);

// `top`: the number of most likely tokens to report in the place of each token; unset: no log-probabilities.
void set_logprobs(Fields& fields, const RequestRules& rules, std::optional<int64_t> top, engine::Sampling& sampling);

// Throws an ApiError for a field that asks for something heddle does not do. Values that ask for nothing are accepted.
void refuse_unsupported(Fields& fields);

std::string read_user(Fields& fields);

constexpr int64_t max_max_tokens = engine::no_limit - 1;
constexpr int64_t max_top_logprobs = 20;

}  // namespace heddle::server

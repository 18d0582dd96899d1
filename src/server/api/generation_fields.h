// What requests that make text have in common.
#pragma once
#include "server/api/fields.h"
#include "server/api/requests.h"

namespace heddle::server {

// All of Generation but `most` and log-probabilities, which chats and completions ask for in different words.
Generation generation_of(Fields& fields, const RequestRules& rules);

// Log-probabilities of the answer's tokens and of so many most likely ones; none: not asked for.
void set_logprobs(Fields& fields, const RequestRules& rules, std::optional<int64_t> top, engine::Sampling& sampling);

constexpr int64_t most_tokens = engine::no_limit - 1;  // that can be asked for
constexpr int64_t most_top = 20;                       // most likely tokens in the place of one

// Who asks: for the log.
std::string user_of(Fields& fields);

// Ids of tokens below `bound`.
std::vector<text::TokenId> ids_at(const Json& list, const std::string& place, uint32_t bound);

}  // namespace heddle::server

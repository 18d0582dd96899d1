// Prompts of completions and embeddings: text or token ids, and whether they fit into the context.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/api/fields.h"
#include "server/api/generation.h"
#include "server/service/served_model.h"

namespace heddle::server {

using Prompt = std::variant<std::string, std::vector<text::TokenId>>;

// A string, a list of token ids, or a list of such.
std::vector<Prompt> prompts_at(const Json& value, const std::string& place, const RequestRules& rules);
// A list of token ids below `bound`.
std::vector<text::TokenId> token_ids_at(const Json& list, const std::string& place, uint32_t bound);

// The tokens of each prompt. Throws an ApiError that names the field for a prompt that is empty, or that is longer than
// the context together with the completion tokens that were asked for (unset: one).
std::vector<std::vector<text::TokenId>> encode(const ServedModel& model, const std::vector<Prompt>& prompts,
                                               const std::string& field, std::optional<uint32_t> max_tokens);
void expect_fits(const ServedModel& model, const std::string& field, size_t prompt, std::optional<uint32_t> max_tokens);

}  // namespace heddle::server

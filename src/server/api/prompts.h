// Prompts as tokens, held to what the model can take.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/api/requests.h"
#include "server/service/served_model.h"

namespace heddle::server {

std::vector<text::TokenId> encode(const ServedModel& model, const Prompt& prompt, text::EncodeOptions options);

// Throws an ApiError 400 that names the field: an empty prompt, or one that is together with the new tokens that were
// asked for (none said: with one) longer than the context.
void expect_fits(const ServedModel& model, const std::string& field, size_t prompt, std::optional<uint32_t> most);

// "prompt" of a single one, "prompt[3]" of several.
std::string field_of(const std::string& name, size_t index, size_t count);

}  // namespace heddle::server

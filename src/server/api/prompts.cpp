#include "server/api/prompts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace heddle::server {
namespace {

constexpr size_t max_prompts = 2048;

// A tokenizer may know more tokens than the model, and the other way round.
uint32_t known_tokens(const RequestRules& rules) {
  return std::min(uint32_t(rules.tokenizer.size()), rules.vocabulary);
}

Prompt prompt_at(const Json& value, const std::string& place, const RequestRules& rules) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) throw unexpected(place, "a string or a list of token ids", value);
  return token_ids_at(list_at(value, place, SIZE_MAX), place, known_tokens(rules));
}

}  // namespace

std::vector<Prompt> prompts_at(const Json& value, const std::string& place, const RequestRules& rules) {
  std::vector<Prompt> prompts;
  if (!value.is_array() || (!value.empty() && value[0].is_number())) {
    if (!value.is_array() && !value.is_string()) throw unexpected(place, "a string or a list", value);
    prompts.push_back(prompt_at(value, place, rules));
    return prompts;
  }
  for (const Json& one : list_at(value, place, max_prompts))
    prompts.push_back(prompt_at(one, element(place, prompts.size()), rules));
  return prompts;
}

std::vector<text::TokenId> token_ids_at(const Json& list, const std::string& place, uint32_t bound) {
  std::vector<text::TokenId> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    // the name of the element is formatted only for an error: prompts may have 100 000 ids
    if (id.is_number_unsigned() && id.get<uint64_t>() < bound)
      ids.push_back(id.get<text::TokenId>());
    else
      ids.push_back(text::TokenId(whole_at(id, element(place, ids.size()), 0, int64_t(bound) - 1)));
  }
  return ids;
}

std::vector<std::vector<text::TokenId>> encode(const ServedModel& model, const std::vector<Prompt>& prompts,
                                               const std::string& field, std::optional<uint32_t> max_tokens) {
  std::vector<std::vector<text::TokenId>> encoded;
  for (const Prompt& prompt : prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    encoded.push_back(text ? model.tokenizer().encode(*text) : std::get<std::vector<text::TokenId>>(prompt));
    const std::string place = prompts.size() == 1 ? field : element(field, encoded.size() - 1);
    expect_fits(model, place, encoded.back().size(), max_tokens);
  }
  return encoded;
}

void expect_fits(const ServedModel& model, const std::string& field, size_t prompt,
                 std::optional<uint32_t> max_tokens) {
  if (prompt == 0) throw bad_field(field, "{}: expected at least one token, found none", field);
  const uint64_t context = model.context();
  if (prompt + uint64_t(max_tokens.value_or(1)) <= context) return;
  throw context_exceeded(field, prompt, prompt < context ? max_tokens.value_or(0) : 0, model.context());
}

}  // namespace heddle::server

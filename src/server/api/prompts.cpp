#include "server/api/prompts.h"

#include "server/service/refusals.h"

namespace heddle::server {

std::vector<text::TokenId> encode(const ServedModel& model, const Prompt& prompt, text::EncodeOptions options) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return model.tokenizer().encode(*text, options);
  return std::get<std::vector<text::TokenId>>(prompt);
}

void expect_fits(const ServedModel& model, const std::string& field, size_t prompt, std::optional<uint32_t> most) {
  if (prompt == 0) throw bad_field(field, "{}: expected at least one token, found none", field);
  const uint64_t context = model.context();
  const uint64_t answer = most.value_or(1);
  if (prompt + answer <= context) return;
  throw too_long(field, prompt, prompt < context && most ? *most : 0, model.context());
}

std::string field_of(const std::string& name, size_t index, size_t count) {
  return count == 1 ? name : fmt::format("{}[{}]", name, index);
}

}  // namespace heddle::server

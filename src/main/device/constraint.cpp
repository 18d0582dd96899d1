#include "main/device/constraint.h"

#include "base/error.h"
#include "grammar/token_masks.h"

namespace heddle {

std::shared_ptr<grammar::CompiledGrammar> compile_constraint(const std::string& name, const grammar::Source& source) {
  try {
    auto compiled = std::make_shared<grammar::CompiledGrammar>(grammar::read(source));
    if (grammar::Position(compiled).must_end()) throw Error("expected a text that is not empty, found nothing else");
    return compiled;
  } catch (const Error& error) {
    const std::string what = error.what();  // may begin with a JSON pointer
    throw Error("{}{}{}", name, what.starts_with('#') ? "" : ": ", what);
  }
}

std::optional<engine::Constrained> constraint_for(const RunningModel& running,
                                                  std::shared_ptr<grammar::CompiledGrammar> compiled) {
  if (!compiled) return std::nullopt;
  auto vocabulary =
      std::make_shared<const grammar::Vocabulary>(running.tokenizer().generated_texts(running.model.vocabulary));
  engine::Constrained constraint{.masks =
                                     std::make_shared<grammar::TokenMasks>(std::move(compiled), std::move(vocabulary))};
  constraint.tokenize = [&tokenizer = running.tokenizer()](std::string_view text) {
    return tokenizer.encode(text, {.add_special = false, .parse_special = false});
  };
  for (const text::TokenId id : running.tokenizer().end_tokens())
    if (id < running.model.vocabulary) constraint.end_tokens.push_back(id);
  return constraint;
}

}  // namespace heddle

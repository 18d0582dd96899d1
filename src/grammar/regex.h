// Regular expressions and lists of texts as grammars.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "grammar/grammar.h"

namespace heddle::grammar {

// The texts that the pattern matches from their beginning to their end; patterns are those of grammar/pattern.h. An
// Error also if there is none.
Grammar regex(std::string_view pattern);
Symbol add_regex(Grammar& grammar, std::string_view pattern);  // as a part of a larger grammar

// One of these texts. An Error if there is none, or if they have more than a million bytes.
Grammar choices(std::span<const std::string> texts);
Symbol add_choices(Grammar& grammar, std::span<const std::string> texts);

}  // namespace heddle::grammar

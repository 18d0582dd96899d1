// A grammar as text, in whichever notation it is written.
#pragma once
#include <string_view>

#include "grammar/grammar.h"

namespace heddle::grammar {

// GBNF, which defines its rules by ::=, or Lark.
Grammar grammar_text(std::string_view text);
// The same as a part of a larger grammar.
Symbol add_grammar_text(Grammar& grammar, std::string_view text);

}  // namespace heddle::grammar

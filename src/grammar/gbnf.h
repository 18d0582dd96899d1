// GBNF, the grammars of llama.cpp.
#pragma once
#include <string_view>

#include "grammar/grammar.h"

namespace heddle::grammar {

// The texts of its rule root. An Error, with line and column, for what is no GBNF; tokens by name or number, such as
// <think> or <[1000]>, are refused, since a grammar is one of texts. Recursion to the left is allowed.
Grammar gbnf(std::string_view text);
// The same as a part of a larger grammar.
Symbol add_gbnf(Grammar& grammar, std::string_view text);

}  // namespace heddle::grammar

// Grammars in Lark's notation, as far as they are context-free.
#pragma once
#include <string_view>

#include "grammar/grammar.h"

namespace heddle::grammar {

// The texts of its rule start. A grammar is taken for what it can derive: terminals may be anything that the text
// allows at a place, so priorities, which choose between trees, change nothing. Ignored terminals may stand before and
// behind every other. An Error, with line and column, for what is no grammar, and for what cannot be kept: templates,
// %declare, %extend, %override, imports of other files than common, lookaround and anchors in regular expressions.
Grammar lark(std::string_view text);
// The same as a part of a larger grammar.
Symbol add_lark(Grammar& grammar, std::string_view text);

}  // namespace heddle::grammar

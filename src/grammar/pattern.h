// Regular expressions as JSON Schema has them: those of ECMA 262 with the flag u.
#pragma once
#include <string_view>

#include "grammar/code_points.h"

namespace heddle::grammar {

// The texts in which the pattern is found, anywhere unless it says ^ and $. An Error, with the place, for what is no
// pattern, and for what no automaton can keep: backreferences, lookbehind, word boundaries, ^ or $ inside repetitions.
// Letters that a pattern would accept without the flag (such as \- or a lone brace) are taken as themselves.
Language search_pattern(Languages& all, std::string_view pattern, Writing how);
// The same for the whole text.
Language whole_pattern(Languages& all, std::string_view pattern, Writing how);

}  // namespace heddle::grammar

// Regular expressions as JSON Schema has them: those of ECMA 262 with the flag u.
#pragma once
#include <string_view>

#include "grammar/code_points.h"

namespace heddle::grammar {

// The texts in which the pattern is found, anywhere unless it says ^ and $. An Error, with the place, for what is no
// pattern, and for what no automaton can keep: backreferences, lookbehind, word boundaries, ^ or $ inside repetitions,
// and nested repetitions that count too far. Letters that a pattern would accept without the flag (such as \- or a lone
// brace) are taken as themselves.
Language search_pattern(Languages& all, std::string_view pattern, Writing how);
struct PatternFlags {
  bool ignore_case = false;
  bool dot_all = false;  // a dot is also the end of a line
};
// The same for the whole text.
Language whole_pattern(Languages& all, std::string_view pattern, Writing how, PatternFlags flags = {});

// What a pattern has, for those that cannot keep all of it.
struct PatternTraits {
  bool asserts = false;    // ^, $, lookahead
  bool lazy = false;       // repetitions such as *?, which tell which text is found, not which texts there are
  bool wide_loop = false;  // repeats a set of many characters, such as [^"]*
  uint64_t counts = 0;     // what repetitions count to, 0 without any
};
PatternTraits pattern_traits(std::string_view pattern);

}  // namespace heddle::grammar

// How JSON writes strings and signs, with the space that may stand between.
#pragma once
#include <string_view>
#include <vector>

#include "grammar/language.h"

namespace heddle::grammar {

struct JsonText {
  explicit JsonText(Languages& all);

  Language space;     // up to 64 blanks, tabs and line ends
  Language any_char;  // one character of a string, in every form it can be written
  Language sign(Languages& all, std::string_view mark, bool space_before, bool space_after) const;
  Language quoted(Languages& all, Language inside) const;
  // Those that most grammars have: strings, numbers, words and signs.
  std::vector<Language> terminals(Languages& all) const;
};

}  // namespace heddle::grammar

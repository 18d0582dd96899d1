// How JSON writes strings and signs, with the space that may stand between.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "grammar/language.h"

namespace heddle::grammar {

struct JsonText {
  explicit JsonText(Languages& all);

  Language any_char;  // one character of a string, in every form it can be written
  Language no_point;  // texts without one, to which draft 4 limits integers
  // One of {}[],: with the space that may stand beside it, as formatters write it: one blank behind a colon; one blank,
  // or a line end and an indentation, behind a comma and inside of brackets. More would let a model that has lost its
  // way fill max_tokens with space.
  Language sign(Languages& all, char mark) const;
  Language quoted(Languages& all, Language inside) const;
  // A string's text in the one form that all writers of JSON agree on: escaped only where it must be.
  static std::string plain(std::string_view text);
  // Those that most grammars have: strings, numbers, words and signs.
  std::vector<Language> terminals(Languages& all) const;

 private:
  Language blank_, gap_;  // nothing, or one; nothing, one, or a line end and an indentation
};

}  // namespace heddle::grammar

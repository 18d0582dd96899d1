// Grammars as requests and command lines give them: a text, and what it is written in.
#pragma once
#include <string>

#include "grammar/grammar.h"

namespace heddle::grammar {

struct Source {
  enum class Kind : uint8_t {
    json_schema,
    regex,
    choices,  // a JSON list of texts
    gbnf,
    lark,
    gbnf_or_lark,    // whichever it is
    structural_tag,  // JSON
  };
  Kind kind = Kind::json_schema;
  std::string text;
  auto operator<=>(const Source&) const = default;
};

// An Error says where the text is wrong, or has what cannot be kept: the JSON pointer, or line and column.
Grammar read(const Source& source);
// The same as a part of a larger grammar.
Symbol add_source(Grammar& grammar, const Source& source);

}  // namespace heddle::grammar

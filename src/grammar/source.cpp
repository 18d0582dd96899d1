#include "grammar/source.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "grammar/gbnf.h"
#include "grammar/grammar_text.h"
#include "grammar/json_schema.h"
#include "grammar/lark.h"
#include "grammar/regex.h"
#include "grammar/tags.h"

namespace heddle::grammar {
namespace {

// In the order of its keys, which the grammar follows.
nlohmann::ordered_json ordered_document(const std::string& text) {
  parse_json(text, "#", 512);  // the strict reader's errors, also of keys that come twice
  return nlohmann::ordered_json::parse(text);
}

}  // namespace

Symbol add_source(Grammar& grammar, const Source& source) {
  switch (source.kind) {
    case Source::Kind::json_schema:
      return add_json_schema(grammar, ordered_document(source.text));
    case Source::Kind::regex:
      return add_regex(grammar, source.text);
    case Source::Kind::choices:
      return add_choices(grammar, ordered_document(source.text).get<std::vector<std::string>>());
    case Source::Kind::gbnf:
      return add_gbnf(grammar, source.text);
    case Source::Kind::lark:
      return add_lark(grammar, source.text);
    case Source::Kind::gbnf_or_lark:
      return add_grammar_text(grammar, source.text);
    case Source::Kind::structural_tag:
      return add_structural_tag(grammar, ordered_document(source.text));
  }
  throw Error("a source of no known kind");
}

Grammar read(const Source& source) { return grammar_of(add_source, source); }

}  // namespace heddle::grammar

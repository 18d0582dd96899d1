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

Grammar read(const Source& source) {
  switch (source.kind) {
    case Source::Kind::json_schema:
      return json_schema(ordered_document(source.text));
    case Source::Kind::regex:
      return regex(source.text);
    case Source::Kind::choices:
      return choices(ordered_document(source.text).get<std::vector<std::string>>());
    case Source::Kind::gbnf:
      return gbnf(source.text);
    case Source::Kind::lark:
      return lark(source.text);
    case Source::Kind::gbnf_or_lark:
      return grammar_text(source.text);
    case Source::Kind::structural_tag:
      return structural_tag(ordered_document(source.text));
  }
  throw Error("a source of no known kind");
}

}  // namespace heddle::grammar

// Any bytes as a JSON Schema: a grammar or refused, and texts parsed with it.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "grammar/json_schema.h"
#include "tests/fuzz/grammar_input.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(schema) {
  return heddle::fuzz::try_grammar(data, size, [](std::string_view text) {
    heddle::parse_json(text, "input");
    return heddle::grammar::json_schema(nlohmann::ordered_json::parse(text));
  });
}

// Any bytes as structural tags: a grammar or refused, and texts parsed with it.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "grammar/tags.h"
#include "tests/fuzz/grammar_input.h"
#include "tests/fuzz/target.h"

FUZZ_TARGET(tags) {
  return heddle::fuzz::try_grammar(data, size, [](std::string_view text) {
    heddle::parse_json(text, "input");
    return heddle::grammar::structural_tag(nlohmann::ordered_json::parse(text));
  });
}

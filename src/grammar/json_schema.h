// JSON Schema (2020-12, and draft 7 as people write it) as a grammar of the JSON texts that are valid.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "grammar/grammar.h"

namespace heddle::grammar {

// Properties come in the order of the schema, then others. A keyword that cannot be kept is an Error that begins with
// its JSON pointer, such as "#/properties/a/not: ...".
Grammar json_schema(const nlohmann::ordered_json& schema);
// The same as a rule of a larger grammar.
Symbol add_json_schema(Grammar& grammar, const nlohmann::ordered_json& schema);

}  // namespace heddle::grammar

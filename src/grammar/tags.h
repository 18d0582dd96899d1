// Structural tags: free text in which tags begin parts that are constrained, as vLLM and xgrammar describe them in
// JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "grammar/grammar.h"

namespace heddle::grammar {

// {"type": "structural_tag", "format": {...}}, and the older {"type": "structural_tag", "structures": [...],
// "triggers": [...]}. What cannot be kept is an Error that begins with its JSON pointer: formats of single tokens,
// limits on the length of free text, parameters as XML.
Grammar structural_tag(const nlohmann::ordered_json& tag);
// The same as a part of a larger grammar.
Symbol add_structural_tag(Grammar& grammar, const nlohmann::ordered_json& tag);

}  // namespace heddle::grammar

// JSON in and out.
#pragma once
#include <string>
#include <string_view>

#include "text/jinja/machine.h"

namespace heddle::text::jinja {

// Keeps the order of members; of two members of one name the last counts, at the place of the first, as in Python.
Value parse_json(std::string_view text, std::string_view where, uint32_t max_depth);

struct JsonStyle {
  bool ascii = false, sorted = false, lines = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
std::string to_json(Machine& machine, const Value& value, const JsonStyle& style);

}  // namespace heddle::text::jinja

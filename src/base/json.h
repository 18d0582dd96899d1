// JSON from files and requests: nlohmann's, read strictly.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace heddle {

using Json = nlohmann::json;

// Throws an Error that begins with `where` (a file's name) for what is no JSON, invalid UTF-8, nesting deeper than
// `max_depth`, a key twice in one object, or text after the end.
Json parse_json(std::string_view text, std::string_view where, size_t max_depth = 64);

std::string shortened(const Json& value);  // as text, cut where it is long: for messages

}  // namespace heddle

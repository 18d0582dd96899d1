// The tools of a request, and what their schemas say about the types of parameters.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_types.h"

namespace heddle::chat {

struct Tool {
  std::string name;
  nlohmann::ordered_json parameters;  // a JSON Schema of an object
};
using Tools = std::vector<Tool>;

const Tool* find_tool(const Tools& tools, std::string_view name);

using enum grammar::JsonType;

// The types that the schema allows for a parameter, as far as it says so without being evaluated; any_type for one that
// it does not name.
uint32_t parameter_types(const Tool& tool, std::string_view parameter);
uint32_t types_in_schema(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root);

// A parameter written as plain text, as JSON: what is no JSON of these types is a string. Where strings are not
// allowed, a list or an object may be written as Python does: templates print {'on': True} for one (Seed-OSS).
std::string value_as_json(std::string_view text, uint32_t types);

}  // namespace heddle::chat

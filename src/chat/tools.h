// The tools of a request, and what their schemas say about the types of parameters.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::chat {

struct Tool {
  std::string name;
  nlohmann::ordered_json parameters;  // a JSON Schema of an object
};
using Tools = std::vector<Tool>;

const Tool* find_tool(const Tools& tools, std::string_view name);

enum ValueType : uint32_t {
  null_type = 1,
  boolean_type = 2,
  number_type = 4,
  string_type = 8,
  array_type = 16,
  object_type = 32,
  any_type = 63,
};
uint32_t type_of(const nlohmann::ordered_json& value);

// The types that the schema allows for a parameter, as far as it says so without being evaluated; any_type for one that
// it does not name.
uint32_t parameter_types(const Tool& tool, std::string_view parameter);
uint32_t types_in_schema(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root);

// A parameter written as plain text, as JSON: what is no JSON of these types is a string.
std::string value_as_json(std::string_view text, uint32_t types);

}  // namespace heddle::chat

// The types of JSON values, as the keyword `type` of a schema names them.
#pragma once
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace heddle::grammar {

// Bits, so that a set of types is their sum.
enum JsonType : uint32_t {
  null_type = 1,
  boolean_type = 2,
  number_type = 4,
  string_type = 8,
  array_type = 16,
  object_type = 32,
  any_type = 63,
};
inline constexpr std::array<std::pair<JsonType, const char*>, 6> json_type_names{{{null_type, "null"},
                                                                                  {boolean_type, "boolean"},
                                                                                  {number_type, "number"},
                                                                                  {string_type, "string"},
                                                                                  {array_type, "array"},
                                                                                  {object_type, "object"}}};

uint32_t type_named(std::string_view name);  // number_type also for "integer"; 0 if there is no such type
uint32_t type_of(const nlohmann::ordered_json& value);

}  // namespace heddle::grammar

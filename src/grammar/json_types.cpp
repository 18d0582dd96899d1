#include "grammar/json_types.h"

namespace heddle::grammar {

uint32_t type_named(std::string_view name) {
  if (name == "integer") return number_type;
  for (const auto& [type, type_name] : json_type_names)
    if (name == type_name) return type;
  return 0;
}

uint32_t type_of(const nlohmann::ordered_json& value) {
  return value.is_null()      ? null_type
         : value.is_boolean() ? boolean_type
         : value.is_number()  ? number_type
         : value.is_string()  ? string_type
         : value.is_array()   ? array_type
                              : object_type;
}

}  // namespace heddle::grammar

#include "text/json/tokenizer_json_fields.h"

#include <algorithm>

#include "base/utf8.h"

namespace heddle::text {

Fields::Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw Error("{}: expected an object, found {}", where_, shortened(object));
}

const Json* Fields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto found = object_.find(known_.back());
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::at(std::string_view name) {
  if (const Json* value = find(name)) return *value;
  throw Error("{}: \"{}\" is missing", where_, name);
}

const Json& Fields::list(std::string_view name) {
  const Json& value = at(name);
  if (!value.is_array()) throw Error("{}: expected a list, found {}", place(name), shortened(value));
  return value;
}

std::string Fields::text(std::string_view name) { return json_text(at(name), place(name)); }

std::string Fields::character(std::string_view name) {
  std::string found = text(name);
  if (found.empty() || code_point_at(found, 0).bytes != found.size())
    throw Error("{}: expected one character, found \"{}\"", place(name), found);
  return found;
}

std::string Fields::text_or(std::string_view name, std::string otherwise) {
  const Json* value = find(name);
  return value ? json_text(*value, place(name)) : otherwise;
}

bool Fields::flag(std::string_view name) { return json_flag(at(name), place(name)); }

bool Fields::flag_or(std::string_view name, bool otherwise) {
  const Json* value = find(name);
  return value ? json_flag(*value, place(name)) : otherwise;
}

uint32_t Fields::number(std::string_view name) { return json_number(at(name), place(name)); }

void Fields::finish() const {
  for (const auto& [name, value] : object_.items())
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      throw Error("{}: unknown field \"{}\": {}", where_, name, shortened(value));
}

std::string json_text(const Json& value, const std::string& place) {
  if (!value.is_string()) throw Error("{}: expected a string, found {}", place, shortened(value));
  return value.get<std::string>();
}

bool json_flag(const Json& value, const std::string& place) {
  if (!value.is_boolean()) throw Error("{}: expected true or false, found {}", place, shortened(value));
  return value.get<bool>();
}

uint32_t json_number(const Json& value, const std::string& place) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX)
    throw Error("{}: expected a whole number from 0 to {}, found {}", place, UINT32_MAX, shortened(value));
  return value.get<uint32_t>();
}

std::vector<JsonStep> json_steps(const Json* json, std::string_view list, const std::string& where) {
  if (!json) return {};
  Fields fields(*json, where);
  const std::string type = fields.text("type");
  if (type != "Sequence") return {{json, type, where}};
  std::vector<JsonStep> steps;
  const Json& inner = fields.list(list);
  for (size_t i = 0; i < inner.size(); ++i)
    for (JsonStep& step : json_steps(&inner[i], list, fmt::format("{}[{}]", fields.place(list), i)))
      steps.push_back(std::move(step));
  fields.finish();
  return steps;
}

void throw_unknown(const JsonStep& step, std::string_view what, std::string_view known) {
  throw Error("{}: unknown {} \"{}\"; known are {}", step.where, what, step.type, known);
}

JsonPattern json_pattern(Fields& fields, std::string_view name) {
  Fields pattern(fields.at(name), fields.place(name));
  JsonPattern result;
  if (const Json* regex = pattern.find("Regex"))
    result = {true, json_text(*regex, pattern.place("Regex"))};
  else
    result = {false, pattern.text("String")};
  pattern.finish();
  return result;
}

}  // namespace heddle::text

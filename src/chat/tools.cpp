#include "chat/tools.h"

#include <algorithm>

#include "base/utf8.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

using grammar::type_of;
using Json = nlohmann::ordered_json;

// The compiler of schemas refuses a name that there is not.
uint32_t type_or_any(const std::string& name) {
  const uint32_t type = grammar::type_named(name);
  return type ? type : uint32_t(any_type);
}

uint32_t types_within(const Json& schema, const Json& root, int depth) {
  if (!schema.is_object() || depth > 16) return any_type;
  uint32_t types = any_type;
  if (const auto type = schema.find("type"); type != schema.end()) {
    uint32_t named = 0;
    if (type->is_string()) named = type_or_any(type->get<std::string>());
    if (type->is_array())
      for (const Json& one : *type)
        if (one.is_string()) named |= type_or_any(one.get<std::string>());
    types &= named;
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    uint32_t listed = 0;
    for (const Json& value : *values) listed |= type_of(value);
    types &= listed;
  }
  if (const auto value = schema.find("const"); value != schema.end()) types &= type_of(*value);
  for (const char* key : {"anyOf", "oneOf"})
    if (const auto choices = schema.find(key); choices != schema.end() && choices->is_array()) {
      uint32_t chosen = 0;
      for (const Json& one : *choices) chosen |= types_within(one, root, depth + 1);
      types &= chosen;
    }
  if (const auto parts = schema.find("allOf"); parts != schema.end() && parts->is_array())
    for (const Json& one : *parts) types &= types_within(one, root, depth + 1);
  if (const auto ref = schema.find("$ref"); ref != schema.end() && ref->is_string()) {
    const auto& text = ref->get_ref<const std::string&>();
    if (text == "#") return types & types_within(root, root, depth + 1);
    if (text.starts_with("#/")) {
      try {
        types &= types_within(root.at(Json::json_pointer(text.substr(1))), root, depth + 1);
      } catch (const Json::exception&) {  // the compiler of schemas reports it
      }
    }
  }
  return types;
}

}  // namespace

const Tool* find_tool(const Tools& tools, std::string_view name) {
  const auto found = std::find_if(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

uint32_t types_in_schema(const Json& schema, const Json& root) { return types_within(schema, root, 0); }

uint32_t parameter_types(const Tool& tool, std::string_view parameter) {
  const auto properties = tool.parameters.is_object() ? tool.parameters.find("properties") : tool.parameters.end();
  if (properties == tool.parameters.end() || !properties->is_object()) return any_type;
  const auto found = properties->find(std::string(parameter));
  return found == properties->end() ? uint32_t(any_type) : types_in_schema(*found, tool.parameters);
}

namespace {

// The string that begins at `at`, with its quotes; `at` moves behind it. False: it does not end, or has an escape that
// templates do not print.
bool take_python_string(std::string_view text, size_t& at, std::string& out) {
  constexpr std::string_view escapes = "\\\\''\"\"n\nr\rt\t";  // pairs of letter and character
  const char quote = text[at++];
  std::string value;
  for (; at < text.size() && text[at] != quote; ++at) {
    if (text[at] != '\\') {
      value += text[at];
      continue;
    }
    if (++at == text.size()) return false;
    size_t found = 0;
    while (found < escapes.size() && escapes[found] != text[at]) found += 2;
    if (found >= escapes.size()) return false;
    value += escapes[found + 1];
  }
  if (at == text.size()) return false;
  ++at;
  out += quoted_text(value);
  return true;
}

// A Python list or dict as JSON; empty if it is none.
std::string python_as_json(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}};
  if (text.empty() || (text[0] != '[' && text[0] != '{')) return "";
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\'' || text[at] == '"') {
      if (!take_python_string(text, at, out)) return "";
      continue;
    }
    const auto word = std::find_if(std::begin(words), std::end(words),
                                   [&](const auto& one) { return text.substr(at).starts_with(one.first); });
    if (word == std::end(words)) {
      out += text[at++];
    } else {
      out += word->second;
      at += word->first.size();
    }
  }
  return Json::accept(out) ? out : "";
}

}  // namespace

std::string value_as_json(std::string_view text, uint32_t types) {
  const std::string_view value = trimmed(text);
  if (value == "True" && (types & boolean_type)) return "true";
  if (value == "False" && (types & boolean_type)) return "false";
  if (value == "None" && (types & null_type)) return "null";
  if (types != string_type && is_utf8(value)) {
    const Json json = Json::parse(value, nullptr, false);
    if (!json.is_discarded() && (type_of(json) & types) && !(json.is_string() && (types & string_type)))
      return std::string(value);
    if (json.is_discarded() && !(types & string_type))
      if (std::string written = python_as_json(value); !written.empty() && (type_of(Json::parse(written)) & types))
        return written;
  }
  return quoted_text(text);
}

}  // namespace heddle::chat

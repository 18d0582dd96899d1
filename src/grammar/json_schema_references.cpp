// $ref: to a pointer, an $anchor or an $id of the same document.
#include "base/error.h"
#include "base/utf8.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

void refuse_schema(const std::string& pointer, std::string_view why) { throw Error("{}: {}", pointer, why); }

std::string pointer_part(std::string_view name) {
  std::string out;
  for (char c : name) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

namespace {

bool has_scheme(std::string_view address) {
  const size_t colon = address.find(':');
  return colon != std::string_view::npos && colon < address.find_first_of("/?#");
}

// A reference in a document with this address, without dots in its path.
std::string resolved_address(const std::string& reference, const std::string& base) {
  if (reference.empty()) return base;
  if (has_scheme(reference)) return reference;
  const size_t authority = base.find("//");
  const size_t scheme = has_scheme(base) ? base.find(':') + 1 : 0;
  size_t path = authority == scheme ? std::min(base.find('/', authority + 2), base.size()) : scheme;
  if (reference.starts_with("//")) return base.substr(0, scheme) + reference;
  std::string all = reference.starts_with('/') ? reference : base.substr(path, base.rfind('/') + 1 - path) + reference;
  if (base.rfind('/') == std::string::npos || base.rfind('/') < path)
    all = (path < base.size() || path == 0 ? "" : "/") + reference;
  std::vector<std::string> parts;
  for (size_t from = 0; from <= all.size();) {
    const size_t end = std::min(all.find('/', from), all.size());
    const std::string part = all.substr(from, end - from);
    if (part == "..") {
      if (parts.size() > 1) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    from = end + 1;
  }
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) joined += (i ? "/" : "") + parts[i];
  return base.substr(0, path) + joined;
}

std::string without_percent(std::string_view text) {
  std::string plain;
  auto hex = [](char c) { return std::string_view("0123456789abcdef").find(char(c | 0x20)); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) < 16 && hex(text[i + 2]) < 16) {
      plain += char(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string own_address(const SchemaJson& schema) {
  for (const char* key : {"$id", "id"})  // draft 4 has the second
    if (schema.is_object() && schema.contains(key) && schema[key].is_string()) return schema[key];
  return "";
}

}  // namespace

std::string SchemaReferences::base_of(const SchemaJson& schema, const std::string& base) {
  const std::string own = own_address(schema);
  if (own.empty() || own.starts_with('#')) return base;
  const std::string address = resolved_address(own, base);
  return address.substr(0, address.find('#'));
}

SchemaReferences::SchemaReferences(const SchemaJson& root) : root_{&root, "#", base_of(root, "")} {
  struct Open {
    const SchemaJson* schema;
    std::string pointer, base;
    bool is_map;  // of names to schemas
    int depth;
  };
  by_address_[""] = root_;
  std::vector<Open> open{{&root, "#", "", false, 0}};
  while (!open.empty()) {
    Open at = std::move(open.back());
    open.pop_back();
    if (at.depth > 500) refuse_schema("#", "schemas are nested deeper than 500");
    if (!at.is_map) {
      add(*at.schema, at.pointer, at.base);
      at.base = base_of(*at.schema, at.base);
    }
    if (!at.schema->is_structured()) continue;
    size_t i = 0;
    for (const auto& [key, v] : at.schema->items()) {
      if (at.schema->is_array()) {
        open.push_back({&v, fmt::format("{}/{}", at.pointer, i++), at.base, false, at.depth + 1});
        continue;
      }
      if (!at.is_map && (key == "enum" || key == "const" || key == "default" || key == "examples")) continue;
      const bool is_map = !at.is_map && (key == "properties" || key == "patternProperties" || key == "$defs" ||
                                         key == "definitions" || key == "dependentSchemas" || key == "dependencies");
      if (v.is_structured()) open.push_back({&v, at.pointer + "/" + pointer_part(key), at.base, is_map, at.depth + 1});
    }
  }
}

void SchemaReferences::add(const SchemaJson& schema, const std::string& pointer, const std::string& base) {
  if (!schema.is_object()) return;
  const std::string own = own_address(schema), inside = base_of(schema, base);
  const Target target{&schema, pointer, inside};
  if (own.starts_with('#'))
    by_address_.try_emplace(base + own, target);  // as draft 7 writes anchors
  else if (!own.empty())
    by_address_.try_emplace(inside, target);
  for (const char* key : {"$anchor", "$dynamicAnchor"})
    if (schema.contains(key) && schema[key].is_string()) {
      by_address_.try_emplace(inside + "#" + schema[key].get<std::string>(), target);
      if (key[1] == 'd') dynamic_.insert(schema[key].get<std::string>());
    }
  if (schema.contains("$recursiveAnchor") && schema["$recursiveAnchor"] == true && pointer != "#")
    has_recursive_anchor_ = true;
}

size_t SchemaReferences::dynamic_anchors(const std::string& name) const { return dynamic_.count(name); }

SchemaReferences::Target SchemaReferences::find(const std::string& reference, const std::string& base,
                                                const std::string& pointer) const {
  const size_t hash = std::min(reference.find('#'), reference.size());
  const std::string address = resolved_address(reference.substr(0, hash), base);
  const std::string fragment = hash < reference.size() ? without_percent(reference.substr(hash + 1)) : "";
  auto nothing = [&] { refuse_schema(pointer, fmt::format("nothing is at {}", in_quotes(reference))); };
  if (!fragment.empty() && fragment[0] != '/') {
    const auto found = by_address_.find(address + "#" + fragment);
    if (found == by_address_.end()) nothing();
    return found->second;
  }
  auto found = by_address_.find(address);
  if (found == by_address_.end()) found = by_address_.find(address + "#");
  if (found == by_address_.end()) {
    if (has_scheme(address) || hash > 0)
      refuse_schema(pointer,
                    fmt::format("{}: only references inside of the schema can be followed", in_quotes(reference)));
    nothing();
  }
  Target at = found->second;
  if (fragment.empty()) return at;
  for (size_t from = 1; from <= fragment.size();) {
    const size_t end = std::min(fragment.find('/', from), fragment.size());
    const std::string part = fragment.substr(from, end - from);
    from = end + 1;
    std::string name;
    for (size_t i = 0; i < part.size(); ++i)
      if (part[i] == '~' && i + 1 < part.size())
        name += part[++i] == '1' ? '/' : '~';
      else
        name += part[i];
    if (at.schema->is_object() && at.schema->contains(name)) {
      at.schema = &(*at.schema)[name];
    } else if (at.schema->is_array() && !name.empty() && name.size() < 9 &&
               name.find_first_not_of("0123456789") == std::string::npos && std::stoul(name) < at.schema->size()) {
      at.schema = &(*at.schema)[std::stoul(name)];
    } else {
      nothing();
    }
    at.pointer += "/" + part;
    at.base = base_of(*at.schema, at.base);
  }
  return at;
}

}  // namespace heddle::grammar

// Whether a value of the schema itself (of enum or const) is valid, and whether any value can be.
#include <algorithm>

#include "base/error.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

std::string canonical_value(const SchemaJson& v) {
  if (v.is_number()) return Decimal(v.dump()).text();
  if (v.is_array()) {
    std::string all = "[";
    for (const SchemaJson& one : v) all += canonical_value(one) + ",";
    return all + "]";
  }
  if (!v.is_object()) return v.dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
  std::map<std::string, std::string> members;
  for (const auto& [name, one] : v.items()) members[SchemaJson(name).dump()] = canonical_value(one);
  std::string all = "{";
  for (const auto& [name, one] : members) all += name + ":" + one + ",";
  return all + "}";
}

bool SchemaWriter::is_valid(const SchemaJson& v, const Literals& all, int depth) {
  return std::ranges::all_of(all, [&](Literal l) { return is_valid(v, l, depth); });
}

bool SchemaWriter::is_valid(const SchemaJson& v, Literal l, int depth) {
  const Place at = places_[l / 2];  // a copy: others are added
  const bool wanted = l % 2 == 0;
  if (at.schema->is_boolean()) return at.schema->get<bool>() == wanted;
  work(at.pointer);
  if (depth > 200) refuse_schema(at.pointer, "schemas that lead to one another more than 200 deep");
  for (const auto& [key, k] : at.schema->items())
    if (!is_valid_keyword(v, at, key, k, depth + 1)) return !wanted;
  return wanted;
}

bool SchemaWriter::is_valid_keyword(const SchemaJson& v, const Place& at, const std::string& key, const SchemaJson& k,
                                    int depth) {
  if (key == "enum" || key == "const") {
    auto [found, is_new] = listed_.try_emplace(&k);
    if (is_new && key == "const") found->second.insert(canonical_value(k));
    if (is_new && key == "enum")
      for (const SchemaJson& one : k) found->second.insert(canonical_value(one));
    return found->second.contains(canonical_value(v));
  }
  if (key == "oneOf")
    return [&] {
      int valid = 0;
      for (size_t i = 0; i < k.size(); ++i) valid += is_valid(v, inner(at, key, i), depth);
      return valid == 1;
    }();
  Branch b;
  take_own_keyword(at, key, k, b);
  return is_valid_shape(v, b, depth);
}

bool SchemaWriter::is_valid_shape(const SchemaJson& v, const Branch& branch, int depth) {
  const Shape& s = branch.shape;
  const uint32_t type = type_of(v);
  if (!(type & s.types)) return false;
  for (const SchemaJson* one : s.excluded)
    if (canonical_value(*one) == canonical_value(v)) return false;
  Languages& l = g_.languages;
  if (type == number_type && !l.contains(number_language(s), Decimal(v.dump()).text())) return false;
  if (type == string_type && !contains_name(string_language(s), v.get<std::string>())) return false;
  if (type == array_type && !is_valid_array(v, s, depth)) return false;
  if (type == object_type && !is_valid_object(v, s, depth)) return false;
  return is_valid(v, branch.open, depth) && std::ranges::all_of(branch.choices, [&](const Choice& c) {
           return !(c.types & type) ||
                  std::ranges::any_of(c.alternatives, [&](const Literals& a) { return is_valid(v, a, depth); });
         });
}

bool SchemaWriter::is_valid_array(const SchemaJson& v, const Shape& s, int depth) {
  if (v.size() < s.min_items || v.size() > s.max_items) return false;
  for (size_t i = 0; i < v.size(); ++i)
    if (!is_valid(v[i], literals_at(s, uint32_t(i)), depth)) return false;
  for (const auto& c : s.contains) {
    size_t found = 0;
    for (size_t i = c.from; i < v.size(); ++i) found += is_valid(v[i], c.item, depth);
    if (found < c.least || found > c.most) return false;
  }
  if (s.unique_at.empty()) return true;
  std::set<std::string> seen;
  return std::ranges::all_of(v, [&](const SchemaJson& one) { return seen.insert(canonical_value(one)).second; });
}

bool SchemaWriter::is_valid_object(const SchemaJson& v, const Shape& s, int depth) {
  if (v.size() < s.min_properties || v.size() > s.max_properties) return false;
  for (const std::string& name : s.required)
    if (!v.contains(name)) return false;
  for (const auto& [name, one] : v.items()) {
    bool never = false;
    const Literals all = literals_for(s, name, never);
    if (never || !is_valid(one, all, depth)) return false;
  }
  return std::ranges::all_of(s.members, [&](const auto& m) {
    for (const auto& [name, one] : v.items())
      if (contains_name(m.first, name) && is_valid(one, m.second, depth)) return true;
    return false;
  });
}

std::optional<std::vector<SchemaJson>> SchemaWriter::values_of(const Literals& all) {
  std::vector<SchemaJson> values;
  std::set<std::string> seen;
  auto add = [&](const SchemaJson& v) {
    if (is_valid(v, all) && seen.insert(canonical_value(v)).second) values.push_back(v);
  };
  for (const Shape& s : shapes_of(all)) {
    if (s.constants) {
      for (const SchemaJson* one : *s.constants) add(*one);
      continue;
    }
    if (s.types & ~uint32_t(null_type | boolean_type)) return {};
    for (const SchemaJson& one : {SchemaJson(nullptr), SchemaJson(true), SchemaJson(false)}) add(one);
  }
  return values;
}

bool SchemaWriter::is_unsatisfiable(const Literals& all, int depth) {
  for (const Shape& s : shapes_of(all))
    if (!is_unsatisfiable(s, all, depth)) return false;
  return true;
}

bool SchemaWriter::is_unsatisfiable(const Shape& s, const Literals& all, int depth) {
  work(s.pointer);
  if (s.constants)
    return std::ranges::none_of(*s.constants, [&](const SchemaJson* one) { return is_valid(*one, all); });
  try {
    if (!g_.languages.is_nothing(scalars(s), 1000)) return false;
  } catch (const Error&) {
    return false;  // not proved
  }
  if (s.types & array_type) {
    bool is_possible = s.min_items <= s.max_items;
    for (uint32_t i = 0; depth > 0 && is_possible && i < std::min(s.min_items, 4u); ++i)
      is_possible = !is_unsatisfiable(literals_at(s, i), depth - 1);
    if (is_possible) return false;
  }
  if (s.types & object_type) {
    bool is_possible = s.required.size() <= s.max_properties && s.min_properties <= s.max_properties;
    for (const std::string& name : s.required) {
      if (!is_possible) break;
      bool never = false;
      const Literals value = literals_for(s, name, never);
      is_possible = !never && (depth == 0 || !is_unsatisfiable(value, depth - 1));
    }
    if (is_possible) return false;
  }
  return true;
}

}  // namespace heddle::grammar

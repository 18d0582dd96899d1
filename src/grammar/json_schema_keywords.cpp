// What the keywords of one schema say, taken into a shape.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/json_schema_writer.h"
#include "grammar/pattern.h"

namespace heddle::grammar {

namespace {

uint32_t schema_count(const SchemaJson& v, const std::string& pointer) {
  if (!v.is_number() || v.get<double>() < 0 || v.get<double>() != std::floor(v.get<double>()))
    refuse_schema(pointer, "expected a whole number of 0 or more");
  return uint32_t(std::min(v.get<double>(), 1e9));
}

void expect_schemas(const SchemaJson& v, const std::string& pointer) {
  if (!v.is_array() || v.empty()) refuse_schema(pointer, "expected a list that is not empty");
}

void expect_object(const SchemaJson& v, const std::string& pointer) {
  if (!v.is_object()) refuse_schema(pointer, "expected an object");
}

void expect_names(const SchemaJson& v, const std::string& pointer) {
  if (!v.is_array() || !std::ranges::all_of(v, [](const SchemaJson& name) { return name.is_string(); }))
    refuse_schema(pointer, "expected a list of names");
}

void add_to_order(Shape& s, const std::string& name) {
  if (s.named.insert(name).second) s.order.push_back(name);
}

}  // namespace

Decimal SchemaWriter::decimal(const SchemaJson& v, const std::string& pointer) {
  if (!v.is_number()) refuse_schema(pointer, "expected a number");
  try {
    return Decimal(v.dump());
  } catch (const Error& e) {
    refuse_schema(pointer, e.what());
  }
}

Language SchemaWriter::pattern(const std::string& text, const std::string& pointer) {
  if (const auto found = patterns_.find(text); found != patterns_.end()) return found->second;
  try {
    return patterns_[text] = search_pattern(g_.languages, text, Writing::json_string);
  } catch (const Error& e) {
    refuse_schema(pointer, e.what());
  }
}

void SchemaWriter::take_keywords(const Place& at, Branch& branch) {
  // names of properties come first in the order, then those that are only required
  if (at.schema->contains("properties")) take_own_keyword(at, "properties", (*at.schema)["properties"], branch);
  for (const auto& [key, v] : at.schema->items())
    if (key != "properties") take_own_keyword(at, key, v, branch);
}

void SchemaWriter::take_own_keyword(const Place& at, const std::string& key, const SchemaJson& v, Branch& branch) {
  Shape& s = branch.shape;
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  if (at.is_made && take_made_keyword(key, v, branch)) return;
  if (key == "type") {
    take_type(at, v, s);
  } else if (key == "enum" || key == "const") {
    if (key == "enum") expect_schemas(v, pointer);
    std::vector<const SchemaJson*> values;
    if (key == "const")
      values = {&v};
    else
      for (const SchemaJson& one : v) values.push_back(&one);
    // the shorter list: all that is in both is found when values are checked
    if (!s.constants || values.size() < s.constants->size()) s.constants = std::move(values);
  } else if (take_number_keyword(at, key, v, s) || take_string_keyword(at, key, v, s) ||
             take_array_keyword(at, key, v, s) || take_object_keyword(at, key, v, branch) ||
             take_choice(at, key, v, branch)) {
    return;
  } else if (const auto found = reference(at, key, v)) {
    branch.open.push_back(*found);
  } else if (key == "unevaluatedItems" || key == "unevaluatedProperties" || key == "extends" || key == "disallow" ||
             key == "divisibleBy") {
    if (v != true && !(key.starts_with("un") && v == SchemaJson::object()))
      refuse_schema(pointer, "this keyword cannot be kept");
  }
  // all others are annotations
}

bool SchemaWriter::take_made_keyword(const std::string& key, const SchemaJson& v, Branch& branch) {
  if (key == own_literal)
    branch.open.push_back(v.get<Literal>());
  else if (key == own_member)
    branch.shape.members.push_back({v[0].get<Language>(), v[1].get<Literal>()});
  else if (key == own_item)
    branch.shape.contains.push_back({v[1].get<Literal>(), v[0].get<uint32_t>(), 1, Languages::unbounded, ""});
  else if (key == own_number)
    branch.shape.not_numbers.push_back(number_limits({&v, "", "", true, 0}));
  else if (key == own_string)
    branch.shape.strings.push_back(g_.languages.without(v.get<Language>()));
  else if (key == own_excluded)
    for (const SchemaJson& one : v) branch.shape.excluded.push_back(&one);
  else
    return false;
  return true;
}

std::optional<Literal> SchemaWriter::reference(const Place& at, const std::string& key, const SchemaJson& v) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  if (key != "$ref" && key != "$dynamicRef" && key != "$recursiveRef") return {};
  if (!v.is_string()) refuse_schema(pointer, "expected a string");
  const auto text = v.get<std::string>();
  if (key == "$dynamicRef" && text.find('#') != std::string::npos &&
      references_.dynamic_anchors(text.substr(text.find('#') + 1)) > 1)
    refuse_schema(pointer, "several schemas have this $dynamicAnchor, which cannot be kept");
  if (key == "$recursiveRef" && references_.has_recursive_anchor())
    refuse_schema(pointer, "beside $recursiveAnchor it cannot be kept");
  const SchemaReferences::Target found = references_.find(text, at.base, pointer);
  return literal(*found.schema, found.pointer, found.base);
}

void SchemaWriter::take_type(const Place& at, const SchemaJson& v, Shape& s) {
  const std::string pointer = at.pointer + "/type";
  uint32_t types = 0;
  bool whole = true;
  for (const SchemaJson& one : v.is_array() ? v : SchemaJson::array({v})) {
    if (!one.is_string()) refuse_schema(pointer, "expected the name of a type");
    const auto name = one.get<std::string>();
    const uint32_t type = type_named(name);
    if (!type) refuse_schema(pointer, fmt::format("there is no type {}", in_quotes(name)));
    types |= type;
    whole = whole && name != "number";
  }
  s.types &= types;
  if (whole && types & number_type) s.numbers.whole = true;
}

NumberLimits SchemaWriter::number_limits(const Place& at) {
  NumberLimits all;
  const SchemaJson& j = *at.schema;
  auto bound = [&](const char* key, const char* strict_key, int sign, std::optional<Decimal>& to, bool& is_strict) {
    // draft 4 has a boolean beside the bound
    const bool strict = j.contains(strict_key) && j[strict_key].is_boolean() && j[strict_key].get<bool>();
    if (j.contains(key)) {
      to = decimal(j[key], at.pointer + "/" + key);
      is_strict = strict;
    }
    if (!j.contains(strict_key) || j[strict_key].is_boolean()) return;
    const Decimal d = decimal(j[strict_key], at.pointer + "/" + strict_key);
    if (to && d.compare(*to) * sign < 0) return;
    to = d;
    is_strict = true;
  };
  bound("minimum", "exclusiveMinimum", 1, all.least, all.above_least);
  bound("maximum", "exclusiveMaximum", -1, all.most, all.below_most);
  if (j.contains("multipleOf")) all.multiple_of = decimal(j["multipleOf"], at.pointer + "/multipleOf");
  all.whole = j.contains("type") && j["type"] == "integer";
  return all;
}

bool SchemaWriter::take_number_keyword(const Place& at, const std::string& key, const SchemaJson&, Shape& s) {
  static const std::set<std::string_view> known{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
                                                "multipleOf"};
  if (!known.contains(key)) return false;
  const NumberLimits own = number_limits(at);
  auto tighter = [](const std::optional<Decimal>& by, bool by_strict, int sign, std::optional<Decimal>& to,
                    bool& strict) {
    if (!by) return;
    const int order = to ? by->compare(*to) * sign : 1;
    if (order < 0) return;
    strict = order > 0 ? by_strict : strict || by_strict;
    to = by;
  };
  if (key != "multipleOf") {
    tighter(own.least, own.above_least, 1, s.numbers.least, s.numbers.above_least);
    tighter(own.most, own.below_most, -1, s.numbers.most, s.numbers.below_most);
  } else if (!s.numbers.multiple_of) {
    s.numbers.multiple_of = own.multiple_of;
  } else {
    NumberLimits another;
    another.multiple_of = own.multiple_of;
    s.more_numbers.push_back(another);
  }
  // limits that cannot be kept are refused where they stand
  if (own.multiple_of) numbers_at(own, at.pointer + "/multipleOf");
  return true;
}

bool SchemaWriter::take_string_keyword(const Place& at, const std::string& key, const SchemaJson& v, Shape& s) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  if (key == "minLength") {
    s.min_length = std::max(s.min_length, schema_count(v, pointer));
  } else if (key == "maxLength") {
    s.max_length = std::min(s.max_length, schema_count(v, pointer));
  } else if (key == "pattern") {
    if (!v.is_string()) refuse_schema(pointer, "expected a string");
    s.strings.push_back(pattern(v.get<std::string>(), pointer));
  } else if (key == "format") {
    if (!v.is_string()) refuse_schema(pointer, "expected a string");
    if (const auto p = format_pattern(v.get<std::string>())) s.strings.push_back(pattern(*p, pointer));
  } else {
    return false;
  }
  return true;
}

std::shared_ptr<const ArrayClause> SchemaWriter::array_clause(const Place& at) {
  std::shared_ptr<const ArrayClause>& found = array_clauses_[at.number];
  if (found) return found;
  const SchemaJson& j = *at.schema;
  auto all = std::make_shared<ArrayClause>();
  // before 2020-12 a list of items is the prefix, and additionalItems the rest
  const bool listed = j.contains("items") && j["items"].is_array();
  const char* const prefix = listed ? "items" : "prefixItems";
  const char* const rest = listed ? "additionalItems" : "items";
  if (j.contains(prefix)) {
    if (!j[prefix].is_array()) refuse_schema(at.pointer + "/" + prefix, "expected a list of schemas");
    for (size_t i = 0; i < j[prefix].size(); ++i) all->prefix.push_back(inner(at, prefix, i));
  }
  if (j.contains(rest)) all->rest = inner(at, rest);
  return found = all;
}

bool SchemaWriter::take_array_keyword(const Place& at, const std::string& key, const SchemaJson& v, Shape& s) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  const SchemaJson& j = *at.schema;
  if (key == "minItems") {
    s.min_items = std::max(s.min_items, schema_count(v, pointer));
  } else if (key == "maxItems") {
    s.max_items = std::min(s.max_items, schema_count(v, pointer));
  } else if (key == "items" || (key == "prefixItems" && !j.contains("items"))) {
    s.arrays.push_back(array_clause(at));
  } else if (key == "contains") {
    const uint32_t least = j.contains("minContains") ? schema_count(j["minContains"], at.pointer + "/minContains") : 1,
                   most = j.contains("maxContains") ? schema_count(j["maxContains"], at.pointer + "/maxContains")
                                                    : Languages::unbounded;
    s.contains.push_back({inner(at, key), 0, least, most, pointer});
  } else if (key == "uniqueItems") {
    if (!v.is_boolean()) refuse_schema(pointer, "expected a boolean");
    if (v.get<bool>()) s.unique_at = pointer;
  } else {
    return key == "prefixItems" || key == "additionalItems" || key == "minContains" || key == "maxContains";
  }
  s.pointer = pointer;
  return true;
}

std::shared_ptr<const ObjectClause> SchemaWriter::object_clause(const Place& at) {
  std::shared_ptr<const ObjectClause>& found = object_clauses_[at.number];
  if (found) return found;
  const SchemaJson& j = *at.schema;
  auto all = std::make_shared<ObjectClause>();
  if (j.contains("properties")) {
    expect_object(j["properties"], at.pointer + "/properties");
    for (const auto& [name, one] : j["properties"].items())
      all->properties[name] = literal(one, at.pointer + "/properties/" + pointer_part(name), at.base, at.is_made);
  }
  if (j.contains("patternProperties")) {
    expect_object(j["patternProperties"], at.pointer + "/patternProperties");
    for (const auto& [name, one] : j["patternProperties"].items()) {
      const std::string pointer = at.pointer + "/patternProperties/" + pointer_part(name);
      all->patterns.push_back({pattern(name, pointer), literal(one, pointer, at.base, at.is_made)});
    }
  }
  if (j.contains("additionalProperties")) all->additional = inner(at, "additionalProperties");
  return found = all;
}

bool SchemaWriter::take_object_keyword(const Place& at, const std::string& key, const SchemaJson& v, Branch& branch) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  const SchemaJson& j = *at.schema;
  Shape& s = branch.shape;
  if (key == "properties" || (key == "patternProperties" && !j.contains("properties")) ||
      (key == "additionalProperties" && !j.contains("properties") && !j.contains("patternProperties"))) {
    s.objects.push_back(object_clause(at));
    if (key == "properties")
      for (const auto& [name, one] : v.items()) add_to_order(s, name);
  } else if (key == "required") {
    if (v == false) return true;  // draft 3 writes a boolean at the property
    expect_names(v, pointer);
    for (const SchemaJson& name : v) {
      s.required.insert(name.get<std::string>());
      add_to_order(s, name.get<std::string>());
    }
  } else if (key == "minProperties") {
    s.min_properties = std::max(s.min_properties, schema_count(v, pointer));
  } else if (key == "maxProperties") {
    s.max_properties = std::min(s.max_properties, schema_count(v, pointer));
  } else if (key == "propertyNames") {
    s.names.push_back(names_of({inner(at, key)}));
  } else if (key == "dependentRequired" || key == "dependentSchemas" || key == "dependencies") {
    expect_object(v, pointer);
    for (const auto& [name, one] : v.items()) take_dependency(at, key, name, branch);
  } else {
    return key == "patternProperties" || key == "additionalProperties";
  }
  s.pointer = pointer;
  return true;
}

void SchemaWriter::take_dependency(const Place& at, const std::string& key, const std::string& name, Branch& branch) {
  const SchemaJson& v = (*at.schema)[key][name];
  const std::string pointer = at.pointer + "/" + key + "/" + pointer_part(name);
  const Literal absent = made({{"properties", {{name, false}}}}, pointer);
  Literals present{made({{"required", SchemaJson::array({name})}}, pointer)};
  if (v.is_array() && key != "dependentSchemas") {
    expect_names(v, pointer);
    present.push_back(made({{"required", v}}, pointer));
  } else if (v.is_string() && key == "dependencies") {  // draft 3
    present.push_back(made({{"required", SchemaJson::array({v})}}, pointer));
  } else {
    if (key == "dependentRequired") refuse_schema(pointer, "expected a list of names");
    present.push_back(inner(at, key, name));
  }
  branch.choices.push_back({object_type, {{absent}, present}});
}

bool SchemaWriter::take_choice(const Place& at, const std::string& key, const SchemaJson& v, Branch& branch) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  if (key == "allOf") {
    expect_schemas(v, pointer);
    for (size_t i = 0; i < v.size(); ++i) branch.open.push_back(inner(at, key, i));
  } else if (key == "anyOf") {
    expect_schemas(v, pointer);
    Alternatives all;
    for (size_t i = 0; i < v.size(); ++i) all.push_back({inner(at, key, i)});
    branch.choices.push_back({any_type, std::move(all)});
  } else if (key == "oneOf") {
    expect_schemas(v, pointer);
    branch.choices.push_back({any_type, one_of(at)});
  } else if (key == "not") {
    branch.open.push_back(negation(inner(at, key)));
  } else if (key == "if") {
    const Literal condition = inner(at, key);
    Literals then{condition}, otherwise{negation(condition)};
    if (at.schema->contains("then")) then.push_back(inner(at, "then"));
    if (at.schema->contains("else")) otherwise.push_back(inner(at, "else"));
    if (then.size() + otherwise.size() > 2) branch.choices.push_back({any_type, {then, otherwise}});
  } else {
    return key == "then" || key == "else";
  }
  return true;
}

// Each choice with those that might be valid too turned into their negation.
Alternatives SchemaWriter::one_of(const Place& at) {
  const size_t count = (*at.schema)["oneOf"].size();
  Alternatives plain;
  for (size_t i = 0; i < count; ++i) plain.push_back({inner(at, "oneOf", i)});
  // without the negations it has more values, so that what is proved about them on the way here holds
  const auto [found, is_new] = one_of_.try_emplace(at.number, plain);
  if (!is_new) return found->second;
  Alternatives exact = plain;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = i + 1; j < count; ++j) {
      work(at.pointer + "/oneOf", 5);
      const Literal a = plain[i][0], b = plain[j][0];
      if (a != b && is_unsatisfiable({std::min(a, b), std::max(a, b)}, 3)) continue;
      exact[i].push_back(negation(b));
      exact[j].push_back(negation(a));
    }
  return one_of_[at.number] = exact;
}

}  // namespace heddle::grammar

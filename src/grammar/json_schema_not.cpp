// What must be satisfied for a schema to fail: one of its keywords fails.
#include <algorithm>

#include "base/error.h"
#include "grammar/json_schema_writer.h"

namespace heddle::grammar {

const Alternatives& SchemaWriter::negated(uint32_t place) {
  if (const auto found = negated_.find(place); found != negated_.end()) return found->second;
  const Place at = places_[place];  // a copy: others are added
  Alternatives all;
  for (const auto& [key, v] : at.schema->items()) negate_keyword(at, key, v, all);
  return negated_[place] = std::move(all);
}

// Another value: of another type, or one that differs somewhere.
SchemaJson SchemaWriter::other_than(const SchemaJson& v) {
  if (!v.is_structured()) return SchemaJson::object({{own_excluded, SchemaJson::array({v})}});
  SchemaJson ways = SchemaJson::array();
  if (v.is_array()) {
    ways.push_back({{"type", {"null", "boolean", "number", "string", "object"}}});
    ways.push_back({{"type", "array"}, {"minItems", v.size() + 1}});
    if (!v.empty()) ways.push_back({{"type", "array"}, {"maxItems", v.size() - 1}});
    SchemaJson before = SchemaJson::array();
    for (const SchemaJson& one : v) {
      SchemaJson prefix = before;
      prefix.push_back(other_than(one));
      ways.push_back({{"type", "array"}, {"minItems", prefix.size()}, {"prefixItems", prefix}});
      before.push_back(true);
    }
    return SchemaJson::object({{"anyOf", ways}});
  }
  ways.push_back({{"type", {"null", "boolean", "number", "string", "array"}}});
  ways.push_back({{"type", "object"}, {"minProperties", v.size() + 1}});
  for (const auto& [name, one] : v.items()) {
    ways.push_back({{"type", "object"}, {"properties", {{name, false}}}});
    ways.push_back(
        {{"type", "object"}, {"required", SchemaJson::array({name})}, {"properties", {{name, other_than(one)}}}});
  }
  return SchemaJson::object({{"anyOf", ways}});
}

void SchemaWriter::negate_keyword(const Place& at, const std::string& key, const SchemaJson& v, Alternatives& all) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  const SchemaJson& j = *at.schema;
  auto add = [&](SchemaJson schema) { all.push_back({made(std::move(schema), pointer)}); };
  auto of = [](const char* type, const char* name, const SchemaJson& value) {
    return SchemaJson{{"type", type}, {name, value}};
  };
  work(pointer);
  if (key == "type") {
    Shape s;
    take_type(at, v, s);
    SchemaJson rest = SchemaJson::array();
    for (const auto& [type, name] : json_type_names)
      if (!(s.types & type)) rest.push_back(name);
    if (!rest.empty()) add({{"type", rest}});
    if (s.numbers.whole) add({{"type", "number"}, {own_number, {{"type", "integer"}}}});
  } else if (key == "enum" || key == "const") {
    SchemaJson scalars = SchemaJson::array();
    Literals others;
    for (const SchemaJson& one : key == "enum" ? v : SchemaJson::array({v}))
      if (one.is_structured())
        others.push_back(made(other_than(one), pointer));
      else
        scalars.push_back(one);
    if (!scalars.empty()) others.push_back(made({{own_excluded, scalars}}, pointer));
    all.push_back(std::move(others));
  } else if (key == "minimum" || key == "maximum" || key == "exclusiveMinimum" || key == "exclusiveMaximum") {
    if (v.is_boolean()) return;  // beside a bound, in draft 4
    const bool low = key == "minimum" || key == "exclusiveMinimum";
    const char* const strict_key = low ? "exclusiveMinimum" : "exclusiveMaximum";
    const bool strict = key == strict_key || (j.contains(strict_key) && j[strict_key] == true);
    add(of("number", low ? (strict ? "maximum" : "exclusiveMaximum") : (strict ? "minimum" : "exclusiveMinimum"), v));
  } else if (key == "multipleOf") {
    numbers_at(number_limits(at), pointer);  // an Error here rather than where it is made
    add({{"type", "number"}, {own_number, {{"multipleOf", v}}}});
  } else if (key == "minLength" || key == "maxLength") {
    Shape s;
    take_string_keyword(at, key, v, s);
    if (key == "maxLength") add(of("string", "minLength", s.max_length + 1));
    if (key == "minLength" && s.min_length > 0) add(of("string", "maxLength", s.min_length - 1));
  } else if (key == "pattern") {
    Shape s;
    take_string_keyword(at, key, v, s);
    add(of("string", own_string, s.strings[0]));
  } else if (key == "format") {
    if (v.is_string() && format_pattern(v.get<std::string>()))
      refuse_schema(pointer, "inside of a negation a format cannot be kept");
  } else if (negate_of_arrays(at, key, v, all) || negate_of_objects(at, key, v, all)) {
    return;
  } else if (key == "allOf" || key == "anyOf" || key == "oneOf") {
    if (!v.is_array() || v.empty()) refuse_schema(pointer, "expected a list that is not empty");
    Literals none;
    for (size_t i = 0; i < v.size(); ++i) none.push_back(negation(inner(at, key, i)));
    if (key == "allOf")
      for (Literal l : none) all.push_back({l});
    else
      all.push_back(none);
    for (size_t i = 0; key == "oneOf" && i < none.size(); ++i)
      for (size_t k = i + 1; k < none.size(); ++k) {
        work(pointer);
        all.push_back({negation(none[i]), negation(none[k])});
      }
  } else if (key == "not") {
    all.push_back({inner(at, key)});
  } else if (key == "if") {
    const Literal condition = inner(at, key);
    if (j.contains("then")) all.push_back({condition, negation(inner(at, "then"))});
    if (j.contains("else")) all.push_back({negation(condition), negation(inner(at, "else"))});
  } else if (const auto target = reference(at, key, v)) {
    all.push_back({negation(*target)});
  } else if (at.is_made && key == own_literal) {
    all.push_back({negation(v.get<Literal>())});
  } else if (key == "unevaluatedItems" || key == "unevaluatedProperties" || key == "extends" || key == "disallow" ||
             key == "divisibleBy" || (at.is_made && key[0] == '\1')) {
    refuse_schema(pointer, "inside of a negation this keyword cannot be kept");
  }
}

bool SchemaWriter::negate_of_arrays(const Place& at, const std::string& key, const SchemaJson& v, Alternatives& all) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  auto add = [&](SchemaJson schema) {
    schema["type"] = "array";
    all.push_back({made(std::move(schema), pointer)});
  };
  Shape s;
  if (!take_array_keyword(at, key, v, s)) return false;
  if (key == "minItems" && s.min_items > 0) add({{"maxItems", s.min_items - 1}});
  if (key == "maxItems") add({{"minItems", s.max_items + 1}});
  for (const auto& clause : s.arrays) {
    SchemaJson before = SchemaJson::array();
    for (Literal l : clause->prefix) {
      SchemaJson prefix = before;
      prefix.push_back(of_literal(negation(l)));
      add({{"minItems", prefix.size()}, {"prefixItems", prefix}});
      before.push_back(true);
    }
    if (clause->rest) add({{own_item, {clause->prefix.size(), negation(*clause->rest)}}});
  }
  for (const auto& c : s.contains) {
    if (c.least > 0) add({{"contains", of_literal(c.item)}, {"minContains", 0}, {"maxContains", c.least - 1}});
    if (c.most != Languages::unbounded) add({{"contains", of_literal(c.item)}, {"minContains", c.most + 1}});
  }
  if (!s.unique_at.empty()) refuse_schema(pointer, "inside of a negation this keyword cannot be kept");
  return true;
}

bool SchemaWriter::negate_of_objects(const Place& at, const std::string& key, const SchemaJson& v, Alternatives& all) {
  const std::string pointer = at.pointer + "/" + pointer_part(key);
  auto add = [&](SchemaJson schema, Literals with = {}) {
    schema["type"] = "object";
    with.push_back(made(std::move(schema), pointer));
    all.push_back(std::move(with));
  };
  auto list = [](const std::string& name) { return SchemaJson::array({name}); };
  Languages& l = g_.languages;
  Branch b;
  if (!take_object_keyword(at, key, v, b)) return false;
  if (key == "minProperties" && b.shape.min_properties > 0) add({{"maxProperties", b.shape.min_properties - 1}});
  if (key == "maxProperties") add({{"minProperties", b.shape.max_properties + 1}});
  if (key == "required")
    for (const std::string& name : b.shape.required) add({{"properties", {{name, false}}}});
  for (Language names : b.shape.names) add({{own_member, {l.without(names), made(true, pointer)}}});
  // a dependency: the property is there, and what it asks for is not
  for (const Choice& c : b.choices) {
    const Literals& present = c.alternatives[1];
    add(SchemaJson::object(), {present[0], negation(present[1])});
  }
  for (const auto& clause : b.shape.objects) {
    std::vector<Language> described;
    for (const auto& [name, one] : clause->properties) {
      described.push_back(text_inside(name, Form::every));
      add({{"required", list(name)}, {"properties", {{name, of_literal(negation(one))}}}});
    }
    for (const auto& [names, one] : clause->patterns) {
      described.push_back(names);
      add({{own_member, {names, negation(one)}}});
    }
    if (clause->additional) add({{own_member, {l.without(l.any_of(described)), negation(*clause->additional)}}});
  }
  return true;
}

}  // namespace heddle::grammar

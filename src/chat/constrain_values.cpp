// Values of parameters in notations other than JSON: strings as plain text between marks, Python's literals.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "chat/constrain.h"
#include "chat/marks.h"
#include "grammar/code_points.h"
#include "grammar/free_text.h"
#include "grammar/json_schema.h"
#include "grammar/pattern.h"

namespace heddle::chat {

using grammar::Bytes;
using grammar::Grammar;
using grammar::Language;
using grammar::Languages;
using grammar::Symbol;
using grammar::Writing;
using Json = nlohmann::ordered_json;

const Json& referred(const Json& schema, const Json& root, const std::string& pointer) {
  const Json& ref = schema["$ref"];
  if (ref == "#") return root;
  if (ref.is_string() && ref.get_ref<const std::string&>().starts_with("#/")) try {
      return root.at(Json::json_pointer(ref.get<std::string>().substr(1)));
    } catch (const Json::exception&) {
    }
  throw Error("{}/$ref: expected a place in this schema, found {}", pointer, ref.dump());
}

Symbol add_json_of_types(Grammar& grammar, const Json& schema, const Json& root, uint32_t types) {
  Json all{{"allOf", Json::array({schema})}};
  Json& names = all["type"] = Json::array();
  for (const auto& [type, name] : grammar::json_type_names)
    if (types & type) names.push_back(name);
  for (const char* key : {"$defs", "definitions"})
    if (root.contains(key)) all[key] = root[key];
  return grammar::add_json_schema(grammar, all);
}

namespace {

uint32_t length_at(const Json& schema, const char* key, uint32_t otherwise, const std::string& pointer) {
  const auto found = schema.find(key);
  if (found == schema.end()) return otherwise;
  if (!found->is_number_unsigned() || found->get<uint64_t>() >= Languages::unbounded)
    throw Error("{}/{}: expected a length, found {}", pointer, key, found->dump());
  return found->get<uint32_t>();
}

// Keywords that say nothing about values, or that are looked at where they matter.
void expect_known_keywords(const Json& schema, const std::string& pointer) {
  static constexpr std::string_view known[] = {"type",
                                               "enum",
                                               "const",
                                               "$ref",
                                               "anyOf",
                                               "oneOf",
                                               "allOf",
                                               "minLength",
                                               "maxLength",
                                               "pattern",
                                               "format",
                                               "title",
                                               "description",
                                               "default",
                                               "examples",
                                               "$schema",
                                               "$defs",
                                               "definitions",
                                               "$id",
                                               "$comment",
                                               "deprecated",
                                               "readOnly",
                                               "writeOnly",
                                               "properties",
                                               "required",
                                               "additionalProperties",
                                               "items",
                                               "minItems",
                                               "maxItems",
                                               "minimum",
                                               "maximum",
                                               "exclusiveMinimum",
                                               "exclusiveMaximum",
                                               "multipleOf",
                                               "nullable",
                                               "strict",
                                               "contentEncoding",
                                               "contentMediaType",
                                               "example"};
  for (const auto& [key, value] : schema.items())
    if (std::ranges::find(known, key) == std::end(known) && !key.starts_with("x-") &&
        !(key == "uniqueItems" && value == false))
      throw Error("{}/{}: this keyword cannot be kept in the way the model writes calls", pointer, key);
}

}  // namespace

Language plain_strings(Grammar& grammar, const Json& schema, const Json& root, const std::string& pointer, int depth) {
  Languages& all = grammar.languages;
  if (depth > 16) throw Error("{}: schemas that refer to each other more than 16 deep", pointer);
  if (schema.is_boolean()) return schema.get<bool>() ? Languages::anything : Languages::nothing;
  if (!schema.is_object()) throw Error("{}: expected a schema, found {}", pointer, schema.dump());
  if (!(types_in_schema(schema, root) & string_type)) return Languages::nothing;
  std::vector<Language> limits{Languages::anything};
  const auto texts = [&](const Json& values) {
    std::vector<Language> choices;
    for (const Json& value : values)
      if (value.is_string()) choices.push_back(all.text(value.get_ref<const std::string&>()));
    return all.any_of(std::move(choices));
  };
  if (schema.contains("enum") && schema["enum"].is_array()) limits.push_back(texts(schema["enum"]));
  if (schema.contains("const")) limits.push_back(texts(Json::array({schema["const"]})));
  const uint32_t least = length_at(schema, "minLength", 0, pointer);
  const uint32_t longest = length_at(schema, "maxLength", Languages::unbounded, pointer);
  if (least > 0 || longest != Languages::unbounded) {
    if (least > longest) return Languages::nothing;
    limits.push_back(all.repeat(written(all, grammar::CodePoints::all(), Writing::utf8), least, longest));
  }
  if (schema.contains("pattern")) {
    if (!schema["pattern"].is_string()) throw Error("{}/pattern: expected a string", pointer);
    try {
      limits.push_back(grammar::search_pattern(all, schema["pattern"].get<std::string>(), Writing::utf8));
    } catch (const Error& error) {
      throw Error("{}/pattern: {}", pointer, error.what());
    }
  }
  const auto parts = [&](const char* key) {
    std::vector<Language> found;
    if (const auto list = schema.find(key); list != schema.end() && list->is_array())
      for (size_t i = 0; i < list->size(); ++i)
        found.push_back(plain_strings(grammar, (*list)[i], root, fmt::format("{}/{}/{}", pointer, key, i), depth + 1));
    return found;
  };
  if (schema.contains("anyOf")) limits.push_back(all.any_of(parts("anyOf")));
  for (const Language part : parts("allOf")) limits.push_back(part);
  if (schema.contains("oneOf")) {  // of each, what the others do not have
    const std::vector<Language> choices = parts("oneOf");
    std::vector<Language> one;
    for (size_t i = 0; i < choices.size(); ++i) {
      std::vector<Language> only{choices[i]};
      for (size_t j = 0; j < choices.size(); ++j)
        if (j != i) only.push_back(all.without(choices[j]));
      one.push_back(all.all_of(std::move(only)));
    }
    limits.push_back(all.any_of(std::move(one)));
  }
  if (schema.contains("$ref"))
    limits.push_back(plain_strings(grammar, referred(schema, root, pointer), root, pointer + "/$ref", depth + 1));
  expect_known_keywords(schema, pointer);
  return all.all_of(std::move(limits));
}

namespace {

// Texts that the parser would take for JSON of one of these types.
Language looks_like(Languages& all, uint32_t types) {
  const Language space = all.repeat(all.bytes(Bytes().set(' ').set('\n').set('\r').set('\t')), 0);
  std::vector<Language> found;
  const auto add = [&](Language text, bool whole) {
    found.push_back(all.sequence(std::vector{space, text, whole ? space : Languages::anything}));
  };
  if (types & number_type) {
    Bytes first;
    for (const char c : std::string_view("-0123456789")) first.set(uint8_t(c));
    add(all.bytes(first), false);
  }
  if (types & boolean_type)
    for (const char* word : {"true", "false", "True", "False"}) add(all.text(word), true);
  if (types & null_type)
    for (const char* word : {"null", "None"}) add(all.text(word), true);
  if (types & array_type) add(all.text("["), false);
  if (types & object_type) add(all.text("{"), false);
  return all.any_of(std::move(found));
}

// The properties that are written: in the order of the schema, and those that are required without being described.
struct Property {
  std::string name;
  const Json* schema;
  bool required;
};
std::vector<Property> properties_of(const Json& schema, const std::string& pointer) {
  static const Json anything = true;
  std::vector<Property> out;
  std::vector<std::string> required;
  if (const auto list = schema.find("required"); list != schema.end() && list->is_array())
    for (const Json& name : *list)
      if (name.is_string()) required.push_back(name.get<std::string>());
  const auto is_required = [&](const std::string& name) { return std::ranges::find(required, name) != required.end(); };
  if (const auto list = schema.find("properties"); list != schema.end()) {
    if (!list->is_object()) throw Error("{}/properties: expected an object, found {}", pointer, list->dump());
    for (const auto& [name, value] : list->items()) out.push_back({name, &value, is_required(name)});
  }
  for (const std::string& name : required)
    if (std::ranges::find(out, name, &Property::name) == out.end()) out.push_back({name, &anything, true});
  return out;
}
bool is_never(const Json& schema) { return schema.is_boolean() && !schema.get<bool>(); }

// What may be behind each property, from the last to the first.
template <class Add>
Symbol chain(Grammar& g, const std::vector<Property>& properties, Add&& add) {
  Symbol rest = rule_of(g, {});
  for (size_t i = properties.size(); i-- > 0;) {
    const Symbol here = g.rule();
    if (!is_never(*properties[i].schema)) add(here, properties[i], rest);
    if (!properties[i].required) g.add_choice(here, {rest});
    if (is_never(*properties[i].schema) && properties[i].required) g.add_choice(here, {g.terminal(Languages::nothing)});
    rest = here;
  }
  return rest;
}

}  // namespace

Symbol add_tag_parameters(Grammar& g, const CallFormat& format, const Tool& tool) {
  Languages& all = g.languages;
  const Json& root = tool.parameters;
  expect_known_keywords(root, "#");
  for (const char* key : {"anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
    if (root.contains(key)) throw Error("#/{}: cannot be kept in the way the model writes calls", key);
  const std::vector<std::string> end{std::string(trimmed(format.value_end))};
  const auto text = [&](const std::string& t) { return g.terminal(all.text(t)); };
  return chain(g, properties_of(root, "#"), [&](Symbol here, const Property& property, Symbol rest) {
    if (property.name.find(trimmed(format.key_end)) != std::string::npos || trimmed(property.name) != property.name)
      throw Error("#/properties/{}: this name cannot be written in the model's calls", property.name);
    const std::string pointer = "#/properties/" + property.name;
    const uint32_t types = types_in_schema(*property.schema, root), others = types & ~uint32_t(string_type);
    const std::string key = format.key_begin + property.name + format.key_end;
    const std::string& other = format.other_value_begin.empty() ? format.value_begin : format.other_value_begin;
    if (types & string_type) {
      std::vector<Language> limits{grammar::text_without(all, end), plain_strings(g, *property.schema, root, pointer)};
      // where the tag does not say so, what looks like another type is one
      if (others && format.other_value_begin.empty()) limits.push_back(all.without(looks_like(all, others)));
      const Language value = all.all_of(std::move(limits));
      std::vector<Symbol> symbols{text(key + format.value_begin),
                                  g.terminal(all.all_of({value, all.without(Languages::empty)})),
                                  text(format.value_end), rest};
      g.add_choice(here, symbols);
      if (all.has_empty(value)) {
        symbols.erase(symbols.begin() + 1);
        g.add_choice(here, symbols);
      }
    }
    if (others)
      g.add_choice(here, {text(key + other), add_json_of_types(g, *property.schema, root, others),
                          text(format.value_end), rest});
  });
}

namespace {

class LiteralWriter {
 public:
  LiteralWriter(Grammar& g, const CallFormat& format, const Json& root)
      : g_(g), all_(g.languages), format_(format), is_python_(format.kind == CallFormat::Kind::python), root_(root) {}

  // The object itself: (key=value, ...) or {key:value,...}.
  Symbol arguments() {
    expect_known_keywords(root_, "#");
    for (const char* key : {"anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
      if (root_.contains(key)) throw Error("#/{}: cannot be kept in the way the model writes calls", key);
    return members(root_, "#", is_python_ ? "(" : "{", is_python_ ? ")" : "}", true);
  }

 private:
  Symbol text(std::string_view t) { return g_.terminal(all_.text(t)); }
  std::string comma() const { return is_python_ ? ", " : ","; }

  Symbol members(const Json& schema, const std::string& pointer, std::string_view open, std::string_view close,
                 bool is_call) {
    // two chains: where nothing has come yet, and where something has
    const auto properties = properties_of(schema, pointer);
    Symbol none = rule_of(g_, {}), some = rule_of(g_, {});
    if (!is_call) add_others(schema, properties, pointer, none, some);
    for (size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      const Symbol next_none = g_.rule(), next_some = g_.rule();
      if (!is_never(*property.schema)) {
        const std::string key = key_text(property.name, pointer, is_call);
        const Symbol one = value(*property.schema, pointer + "/properties/" + property.name);
        g_.add_choice(next_none, {text(key), one, some});
        g_.add_choice(next_some, {text(comma() + key), one, some});
      } else if (property.required) {
        g_.add_choice(next_none, {g_.terminal(Languages::nothing)});
        g_.add_choice(next_some, {g_.terminal(Languages::nothing)});
      }
      if (!property.required) {
        g_.add_choice(next_none, {none});
        g_.add_choice(next_some, {some});
      }
      none = next_none;
      some = next_some;
    }
    return rule_of(g_, {text(open), none, text(close)});
  }
  // Properties that the schema allows without naming them, by names of letters and digits.
  void add_others(const Json& schema, const std::vector<Property>& properties, const std::string& pointer, Symbol none,
                  Symbol some) {
    static const Json anything = true;
    const auto found = schema.find("additionalProperties");
    const Json& others = found == schema.end() ? anything : *found;
    if (is_never(others)) return;
    Bytes letters;
    for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"))
      letters.set(uint8_t(c));
    std::vector<Language> named;
    for (const Property& property : properties) named.push_back(all_.text(property.name));
    const Language name = all_.all_of({all_.repeat(all_.bytes(letters), 1, 64), all_.without(all_.any_of(named))});
    const Language key = is_python_ ? all_.sequence(std::vector{all_.text("\""), name, all_.text("\": ")})
                                    : all_.sequence(name, all_.text(":"));
    const Symbol one = rule_of(g_, {g_.terminal(key), value(others, pointer + "/additionalProperties")});
    const Symbol more = g_.rule();
    g_.add_choice(more, {});
    g_.add_choice(more, {text(comma()), one, more});
    g_.add_choice(none, {one, more});
    g_.add_choice(some, {text(comma()), one, more});
  }
  std::string key_text(const std::string& name, const std::string& pointer, bool is_call) const {
    const bool quoted = is_python_ && !is_call;
    if (!quoted && (name.find_first_of(",:={}[]()\"' \n\r\t<") != name.npos || name.empty()))
      throw Error("{}/properties/{}: this name cannot be written in the model's calls", pointer, name);
    if (quoted) return quoted_text(name) + ": ";
    return name + (is_python_ ? "=" : ":");
  }

  Symbol value(const Json& schema, const std::string& pointer) {
    if (const auto found = rules_.find(&schema); found != rules_.end()) return found->second;
    if (rules_.size() > 5000) throw Error("{}: more than 5000 schemas in one tool", pointer);
    const Symbol rule = g_.rule();
    rules_.emplace(&schema, rule);
    if (schema.is_object()) expect_known_keywords(schema, pointer);
    const uint32_t types = schema.is_boolean() ? uint32_t(any_type) : types_in_schema(schema, root_);
    const bool is_any = schema.is_boolean() || schema.empty();
    if (!schema.is_boolean() && !schema.is_object())
      throw Error("{}: expected a schema, found {}", pointer, schema.dump());
    if (schema.is_object() && (schema.contains("enum") || schema.contains("const")))
      add_constants(rule, schema, pointer);
    else
      add_types(rule, is_any ? Json::object() : schema, types, pointer);
    g_.add_choice(rule, {g_.terminal(Languages::nothing)});
    return rule;
  }

  void add_constants(Symbol rule, const Json& schema, const std::string& pointer) {
    const Json values = schema.contains("const") ? Json::array({schema["const"]}) : schema["enum"];
    const uint32_t types = types_in_schema(schema, root_);
    for (const Json& value : values) {
      if (!(grammar::type_of(value) & types)) continue;
      if (value.is_structured()) throw Error("{}: lists and objects cannot be constants here", pointer);
      g_.add_choice(rule, {text(scalar_text(value))});
    }
  }
  std::string scalar_text(const Json& value) const {
    if (value.is_string()) {
      if (is_python_) return value.dump();
      return format_.quote + value.get<std::string>() + format_.quote;
    }
    if (is_python_ && value.is_boolean()) return value.get<bool>() ? "True" : "False";
    return is_python_ && value.is_null() ? "None" : value.dump();
  }

  void add_types(Symbol rule, const Json& schema, uint32_t types, const std::string& pointer) {
    if (types & null_type) g_.add_choice(rule, {text(is_python_ ? "None" : "null")});
    if (types & boolean_type)
      for (const bool on : {false, true}) g_.add_choice(rule, {text(scalar_text(on))});
    if (types & number_type) g_.add_choice(rule, {add_json_of_types(g_, schema, root_, number_type)});
    if (types & string_type) g_.add_choice(rule, {string(schema, pointer)});
    if (types & (array_type | object_type)) add_structures(rule, schema, types, pointer, 0);
  }
  Symbol string(const Json& schema, const std::string& pointer) {
    if (is_python_) return add_json_of_types(g_, schema, root_, string_type);
    const std::vector<std::string> quote{format_.quote};
    const Language inside =
        all_.all_of({grammar::text_without(all_, quote), plain_strings(g_, schema, root_, pointer)});
    return g_.terminal(all_.sequence(std::vector{all_.text(format_.quote), inside, all_.text(format_.quote)}));
  }

  void add_structures(Symbol rule, const Json& schema, uint32_t types, const std::string& pointer, int depth) {
    if (depth > 16) throw Error("{}: schemas that refer to each other more than 16 deep", pointer);
    if (schema.contains("$ref")) {
      const Json& target = referred(schema, root_, pointer);
      return add_structures(rule, target, types & types_in_schema(target, root_), pointer + "/$ref", depth + 1);
    }
    if (schema.contains("allOf")) throw Error("{}/allOf: cannot be kept in the way the model writes calls", pointer);
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!schema.contains(key)) continue;
      uint32_t seen = 0;
      for (size_t i = 0; i < schema[key].size(); ++i) {
        const uint32_t here = types & types_in_schema(schema[key][i], root_) & uint32_t(array_type | object_type);
        if (std::string_view(key) == "oneOf" && (seen & here))
          throw Error("{}/oneOf: two choices of one type cannot be kept in the way the model writes calls", pointer);
        seen |= here;
        if (here) add_structures(rule, schema[key][i], here, fmt::format("{}/{}/{}", pointer, key, i), depth + 1);
      }
      return;
    }
    if (types & array_type) g_.add_choice(rule, {array(schema, pointer)});
    if (types & object_type) g_.add_choice(rule, {members(schema, pointer, "{", "}", false)});
  }

  Symbol array(const Json& schema, const std::string& pointer) {
    static const Json anything = true;
    constexpr uint32_t max_counted = 256;
    const uint32_t least = length_at(schema, "minItems", 0, pointer);
    const uint32_t longest = length_at(schema, "maxItems", Languages::unbounded, pointer);
    if (least > max_counted || (longest != Languages::unbounded && longest > max_counted))
      throw Error("{}: more than {} items cannot be counted", pointer, max_counted);
    const Json& items = schema.contains("items") ? schema["items"] : anything;
    if (longest == 0 || is_never(items)) return text("[]");
    const Symbol item = value(items, pointer + "/items");
    Symbol more = g_.rule();
    g_.add_choice(more, {});
    const uint32_t fixed = std::max(least, 1u);
    if (longest == Languages::unbounded) {
      g_.add_choice(more, {text(comma()), item, more});
    } else {
      for (uint32_t i = longest; i-- > fixed;) {
        const Symbol before = g_.rule();
        g_.add_choice(before, {});
        g_.add_choice(before, {text(comma()), item, more});
        more = before;
      }
    }
    std::vector<Symbol> all{text("["), item};
    for (uint32_t i = 1; i < fixed; ++i) {
      all.push_back(text(comma()));
      all.push_back(item);
    }
    all.push_back(more);
    all.push_back(text("]"));
    const Symbol rule = rule_of(g_, std::move(all));
    if (least == 0) g_.add_choice(rule, {text("[]")});
    return rule;
  }

  Grammar& g_;
  Languages& all_;
  const CallFormat& format_;
  const bool is_python_;
  const Json& root_;
  std::map<const Json*, Symbol> rules_;
};

}  // namespace

Symbol add_literal_arguments(Grammar& g, const CallFormat& format, const Tool& tool) {
  return LiteralWriter(g, format, tool.parameters).arguments();
}

}  // namespace heddle::chat

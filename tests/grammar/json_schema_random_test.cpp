// Random schemas against a validator that only knows the standard's words: what it calls invalid is never taken.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "grammar/json_schema.h"
#include "grammar/parser.h"
#include "tests/support/shorter.h"

namespace heddle::grammar {
namespace {

using Json = nlohmann::ordered_json;

bool same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!same_value(a[i], b[i])) return false;
    return true;
  }
  if (!a.is_object()) return a == b;
  for (const auto& [name, one] : a.items())
    if (!b.contains(name) || !same_value(one, b[name])) return false;
  return true;
}

bool has_type(const Json& v, const std::string& type) {
  if (type == "integer") return v.is_number() && v.get<double>() == std::floor(v.get<double>());
  return (type == "null" && v.is_null()) || (type == "boolean" && v.is_boolean()) ||
         (type == "number" && v.is_number()) || (type == "string" && v.is_string()) ||
         (type == "array" && v.is_array()) || (type == "object" && v.is_object());
}

// Patterns here are ^x, for a beginning, and x, for a letter anywhere.
bool is_found(const std::string& pattern, const std::string& text) {
  return pattern[0] == '^' ? text.starts_with(pattern.substr(1)) : text.find(pattern) != std::string::npos;
}

bool follows(const Json& s, const Json& v);

size_t followed(const Json& schemas, const Json& v) {
  size_t n = 0;
  for (const Json& s : schemas) n += follows(s, v);
  return n;
}

bool keeps_array(const Json& s, const std::string& key, const Json& k, const Json& v) {
  const size_t prefix = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
  if (key == "minItems") return v.size() >= k.get<size_t>();
  if (key == "maxItems") return v.size() <= k.get<size_t>();
  for (size_t i = 0; i < v.size(); ++i) {
    if (key == "prefixItems" && i < prefix && !follows(k[i], v[i])) return false;
    if (key == "items" && i >= prefix && !follows(k, v[i])) return false;
    for (size_t j = i + 1; key == "uniqueItems" && j < v.size(); ++j)
      if (same_value(v[i], v[j])) return false;
  }
  if (key != "contains") return true;
  size_t n = 0;
  for (const Json& one : v) n += follows(k, one);
  return n >= s.value("minContains", 1u) && n <= s.value("maxContains", 1000u);
}

bool keeps_object(const Json& s, const std::string& key, const Json& k, const Json& v) {
  if (key == "minProperties") return v.size() >= k.get<size_t>();
  if (key == "maxProperties") return v.size() <= k.get<size_t>();
  if (key == "required")
    return std::ranges::all_of(k, [&](const Json& name) { return v.contains(name.get<std::string>()); });
  if (key == "dependentRequired" || key == "dependentSchemas") {
    for (const auto& [name, one] : k.items())
      if (v.contains(name) && !(key == "dependentSchemas" ? follows(one, v) : keeps_object(s, "required", one, v)))
        return false;
    return true;
  }
  for (const auto& [name, one] : v.items()) {
    bool described = s.contains("properties") && s["properties"].contains(name);
    if (key == "properties" && k.contains(name) && !follows(k[name], one)) return false;
    if (key == "propertyNames" && !follows(k, name)) return false;
    if (s.contains("patternProperties"))
      for (const auto& [pattern, p] : s["patternProperties"].items())
        if (is_found(pattern, name)) {
          described = true;
          if (key == "patternProperties" && !follows(p, one)) return false;
        }
    if (key == "additionalProperties" && !described && !follows(k, one)) return false;
  }
  return true;
}

bool keeps_keyword(const Json& s, const std::string& key, const Json& k, const Json& v) {
  if (key == "type") {
    if (k.is_string()) return has_type(v, k);
    return std::ranges::any_of(k, [&](const Json& t) { return has_type(v, t); });
  }
  if (key == "const") return same_value(k, v);
  if (key == "enum") return std::ranges::any_of(k, [&](const Json& one) { return same_value(one, v); });
  if (key == "allOf") return followed(k, v) == k.size();
  if (key == "anyOf") return followed(k, v) > 0;
  if (key == "oneOf") return followed(k, v) == 1;
  if (key == "not") return !follows(k, v);
  if (key == "if") {
    const char* branch = follows(k, v) ? "then" : "else";
    return !s.contains(branch) || follows(s[branch], v);
  }
  if (v.is_number() && k.is_number()) {
    const double x = v, limit = k;
    if (key == "minimum") return x >= limit;
    if (key == "maximum") return x <= limit;
    if (key == "exclusiveMinimum") return x > limit;
    if (key == "exclusiveMaximum") return x < limit;
    if (key == "multipleOf") return x / limit == std::floor(x / limit);
  }
  if (v.is_string()) {
    const std::string text = v;
    if (key == "minLength") return text.size() >= k.get<size_t>();
    if (key == "maxLength") return text.size() <= k.get<size_t>();
    if (key == "pattern") return is_found(k, text);
  }
  if (v.is_array()) return keeps_array(s, key, k, v);
  if (v.is_object()) return keeps_object(s, key, k, v);
  return true;
}

bool follows(const Json& s, const Json& v) {
  if (s.is_boolean()) return s;
  for (const auto& [key, k] : s.items())
    if (!keeps_keyword(s, key, k, v)) return false;
  return true;
}

class RandomSchemas {
 public:
  explicit RandomSchemas(uint32_t seed) : random_(seed) {}

  Json scalar() {
    static const std::vector<Json> all{nullptr, true, false, 0, 1, 2, 3, -1, 1.5, 2.5, "", "a", "b", "ab", "abc"};
    return all[below(all.size())];
  }
  Json value(int depth) {
    const size_t way = below(4);
    if (depth == 0 || way < 2) return scalar();
    Json all = way == 2 ? Json::array() : Json::object();
    for (const char* name : {"a", "ab", "b", "c"}) {
      if (below(2)) continue;
      if (way == 2)
        all.push_back(value(depth - 1));
      else
        all[name] = value(depth - 1);
    }
    return all;
  }
  Json schema(int depth) {
    if (below(16) == 0) return below(3) > 0;
    Json s = Json::object();
    for (size_t n = 1 + below(4); n > 0; --n) add_keyword(s, depth);
    return s;
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  Json some_of(std::vector<Json> all) {
    Json found = Json::array();
    for (Json& one : all)
      if (below(2)) found.push_back(one);
    return found.empty() ? Json::array({all[0]}) : found;
  }
  Json schemas(int depth) {
    Json all = Json::array();
    for (size_t n = 1 + below(3); n > 0; --n) all.push_back(inner(depth));
    return all;
  }
  Json inner(int depth) { return depth > 0 ? schema(depth - 1) : Json{{"type", "integer"}}; }

  void add_keyword(Json& s, int depth) {
    static const std::vector<std::string> numbers{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
        counts{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"},
        lists{"allOf", "anyOf", "oneOf", "prefixItems"}, single{"not", "items", "additionalProperties"};
    const std::vector<Json> names{"a", "ab", "b", "c"};
    switch (below(14)) {
      case 0:
        s["type"] = some_of({"null", "boolean", "number", "integer", "string", "array", "object"});
        break;
      case 1:
        s["enum"] = Json::array({value(1), value(1), value(1)});
        break;
      case 2:
        s["const"] = value(1);
        break;
      case 3:
        s[numbers[below(4)]] = std::vector<Json>{0, 1, 1.5, -1}[below(4)];
        break;
      case 4:
        s["multipleOf"] = std::vector<Json>{1, 2, 0.5, 3}[below(4)];
        break;
      case 5:
        s[counts[below(6)]] = below(4);
        break;
      case 6:
        s[lists[below(4)]] = schemas(depth);
        break;
      case 7:
        s[single[below(3)]] = inner(depth);
        break;
      case 8:
        s["properties"] = Json::object();
        for (const Json& name : some_of(names)) s["properties"][name.get<std::string>()] = inner(depth);
        break;
      case 9:
        s["patternProperties"][below(2) ? "^a" : "b"] = inner(depth);
        s["pattern"] = below(2) ? "^a" : "b";
        break;
      case 10:
        s["required"] = some_of(names);
        break;
      case 11:
        s["contains"] = inner(depth);
        if (below(2)) s["minContains"] = below(3);
        if (below(2)) s["maxContains"] = below(3);
        break;
      case 12:
        s["if"] = inner(depth);
        if (below(2)) s["then"] = inner(depth);
        if (below(2)) s["else"] = inner(depth);
        break;
      default:
        s["dependentRequired"]["b"] = some_of(names);
        s["dependentSchemas"]["a"] = inner(depth);
        s["propertyNames"] = Json{{"maxLength", 1 + below(2)}};
        if (below(2)) {
          s["uniqueItems"] = true;
          s["items"] = Json{{"enum", {scalar(), scalar(), scalar()}}};
        }
    }
  }

  std::mt19937 random_;
};

bool has_object(const Json& v) { return v.is_object() || (v.is_array() && std::ranges::any_of(v, has_object)); }

TEST(JsonSchemaRandom, TakesWhatIsValid) {
  size_t compiled = 0, taken = 0;
  for (uint32_t seed = 0; seed < 600 / test::shorter; ++seed) {
    RandomSchemas random(seed);
    const Json schema = random.schema(2);
    std::shared_ptr<CompiledGrammar> grammar;
    try {
      grammar = std::make_shared<CompiledGrammar>(json_schema(schema));
    } catch (const Error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("#")) << e.what();
    }
    for (int i = 0; i < 30; ++i) {
      const Json v = random.value(2);
      const bool valid = follows(schema, v);
      if (!grammar) continue;
      Position at(grammar);
      const bool is_taken = at.take(v.dump()) && at.may_end();
      // names may be out of order in a value that is valid, so objects need not be taken
      if (valid != is_taken && (is_taken || !has_object(v)))
        ADD_FAILURE() << (is_taken ? "took " : "did not take ") << v << " for " << schema;
      taken += is_taken;
    }
    compiled += grammar != nullptr;
  }
  EXPECT_GT(compiled, 450u / test::shorter);
  EXPECT_GT(taken, 2000u / test::shorter);
}

}  // namespace
}  // namespace heddle::grammar

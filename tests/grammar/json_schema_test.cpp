#include "grammar/json_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "grammar/parser.h"

namespace heddle::grammar {
namespace {

using Json = nlohmann::ordered_json;

struct Schema {
  explicit Schema(const char* text) : grammar(std::make_shared<CompiledGrammar>(json_schema(Json::parse(text)))) {}
  bool takes(std::string_view text) const {
    Position at(grammar);
    return at.take(text) && at.may_end();
  }
  std::shared_ptr<CompiledGrammar> grammar;
};

std::string refused(const char* text) {
  try {
    json_schema(Json::parse(text));
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(JsonSchema, Objects) {
  const Schema s(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
                     "required": ["b"], "additionalProperties": false})");
  EXPECT_TRUE(s.takes(R"({"a": 1, "b": "x"})") && s.takes(R"({"b":"x","c":[null,{"d":1.5e3}]})"));
  EXPECT_FALSE(s.takes("{}") || s.takes(R"({"a": 1})") || s.takes(R"({"b": 1})") || s.takes(R"({"b": "x", "d": 1})"));
  EXPECT_FALSE(s.takes(R"({"b": "x", "b": "y"})") || s.takes(R"({"b": "x",})") || s.takes(R"({,"b": "x"})"));
  const Schema others(
      R"({"properties": {"a": {"const": 1}}, "patternProperties": {"^x": {"type": "null"}}, "additionalProperties": {"type": "boolean"}})");
  EXPECT_TRUE(others.takes(R"({"a": 1, "x1": null, "y": true})") && others.takes("[]") &&
              others.takes(R"({"y": false, "x": null})"));
  EXPECT_FALSE(others.takes(R"({"x1": true})") || others.takes(R"({"y": null})") ||
               others.takes(R"({"y": true, "a": 1})"));
}

// Space as formatters write it, and no more: a model cannot fill max_tokens with it.
TEST(JsonSchema, Space) {
  const Schema s(R"({"properties": {"a": {"type": "array"}, "b": {"const": {"c": [1], "d": {}, "e": []}}}})");
  EXPECT_TRUE(s.takes(R"({"a":[1,2],"b":{"c":[1],"d":{},"e":[]}})"));
  EXPECT_TRUE(s.takes(R"({ "a": [ 1, 2 ], "b": { "c": [ 1 ], "d": {}, "e": [] } })"));
  EXPECT_TRUE(s.takes("{\n\t\"a\": [\n\t\t1,\n\t\t2\n\t],\n\t\"b\": {\"c\": [1], \"d\": {}, \"e\": []}\n}"));
  EXPECT_TRUE(s.takes("{\n" + std::string(40, ' ') + "\"a\": []}") && s.takes("{ }") && s.takes("{\"a\": [\n]}"));
  for (const char* text :
       {"{  }", " {}", "{} ", "{\n\n}", "{\"a\" : []}", "{\"a\":  []}", "{\"a\":\n[]}", "{\"a\": [1 ,2]}",
        "{\"a\": [1,  2]}", "{\"a\": [1, \n2]}", "{\t\"a\": []}", "{\"a\": [1,\r\n2]}"})
    EXPECT_FALSE(s.takes(text)) << text;
  EXPECT_FALSE(s.takes("{\n" + std::string(41, ' ') + "\"a\": []}"));
}

// Names and constants are written as they are; as other names and strings they are known in every form.
TEST(JsonSchema, FormsOfStrings) {
  const Schema s(
      R"({"properties": {"a\"\u00e9/\n": {"enum": ["x", "\\"]}}, "additionalProperties": {"type": "string"}, "type": "object"})");
  EXPECT_TRUE(s.takes("{\"a\\\"\u00e9/\\n\": \"x\"}") && s.takes("{\"a\\\"\u00e9/\\n\": \"\\\\\"}"));
  for (const char* text :
       {"{\"\\u0061\\\"\u00e9/\\n\": \"x\"}", "{\"a\\\"\\u00e9/\\n\": \"x\"}", "{\"a\\\"\u00e9\\/\\n\": \"x\"}",
        "{\"a\\\"\u00e9/\\u000a\": \"x\"}", "{\"a\\\"\u00e9/\\n\": \"\\u0078\"}"})
    EXPECT_FALSE(s.takes(text)) << text;
  EXPECT_TRUE(s.takes("{\"\\u0062\": \"\\u0061\"}"));
}

TEST(JsonSchema, ListsAndNumbers) {
  const Schema s(
      R"({"type": "array", "prefixItems": [{"type": "string"}], "items": {"minimum": 2, "maximum": 5, "type": "number"}, "minItems": 1, "maxItems": 3})");
  EXPECT_TRUE(s.takes(R"(["x"])") && s.takes(R"(["x", 2, 4.5])"));
  EXPECT_FALSE(s.takes("[]") || s.takes(R"(["x", 1])") || s.takes(R"(["x", 2, 3, 4])") || s.takes("[2]"));
  const Schema upto(R"({"maxItems": 2, "type": "array"})");
  EXPECT_TRUE(upto.takes("[]") && upto.takes("[1]") && upto.takes("[1, 2]") && !upto.takes("[1,2,3]"));
}

TEST(JsonSchema, ReferencesAndRecursion) {
  const Schema s(
      R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}, "additionalProperties": false}}})");
  EXPECT_TRUE(s.takes(R"({"next": {"next": {}}})") && s.takes("{}"));
  EXPECT_FALSE(s.takes(R"({"next": 1})"));
}

TEST(JsonSchema, Combinations) {
  const Schema all(
      R"({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"minLength": 2}}, "required": ["a"]}], "type": "object"})");
  EXPECT_TRUE(all.takes(R"({"a": "xy"})"));
  EXPECT_FALSE(all.takes(R"({"a": "x"})") || all.takes("{}"));
  const Schema any(
      R"({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}], "enum": ["a", "bb", 3, 3.5]})");
  EXPECT_TRUE(any.takes("\"a\"") && any.takes("3"));
  EXPECT_FALSE(any.takes("\"bb\"") || any.takes("3.5"));
  const Schema one(
      R"({"oneOf": [{"properties": {"k": {"const": "a"}, "v": {"type": "string"}}, "required": ["k"], "type": "object"},
                                 {"properties": {"k": {"const": "b"}, "v": {"type": "number"}}, "required": ["k"], "type": "object"}]})");
  EXPECT_TRUE(one.takes(R"({"k": "b", "v": 1})"));
  EXPECT_FALSE(one.takes(R"({"k": "a", "v": 1})"));
  const Schema apart(
      R"({"allOf": [{"properties": {"foo": {}}}], "properties": {"bar": {}}, "additionalProperties": {"type": "boolean"}})");
  EXPECT_FALSE(apart.takes(R"({"foo": 1, "bar": true})"));
}

TEST(JsonSchema, Formats) {
  const Schema s(R"({"format": "date", "type": "string"})");
  EXPECT_TRUE(s.takes("\"2024-02-29\"") && s.takes("\"2000-02-29\"") && s.takes("\"2023-12-31\""));
  EXPECT_FALSE(s.takes("\"2023-02-29\"") || s.takes("\"1900-02-29\"") || s.takes("\"2023-04-31\"") || s.takes("\"x\""));
}

TEST(JsonSchema, FormatsOfAddressesAndPatterns) {
  const Schema iri(R"({"format": "iri", "type": "string"})");
  EXPECT_TRUE(iri.takes("\"http://\u00e9.example/%20?a=b#c\"") && iri.takes("\"urn:x\""));
  EXPECT_FALSE(iri.takes("\"not-an-iri\"") || iri.takes("\"http://a b\"") || iri.takes("\"http://a/%2\""));
  const Schema address(R"({"format": "uri-template", "type": "string"})");
  EXPECT_TRUE(address.takes("\"http://a.b/{id}/{?q,list*}{&x:3}\"") && address.takes("\"/a/%20{+b.c}\""));
  EXPECT_FALSE(address.takes("\"http://a/{\"") || address.takes("\"{}\"") || address.takes("\"{a b}\"") ||
               address.takes("\"a}\""));
  const Schema pattern(R"({"format": "regex", "type": "string"})");
  for (const char* text :
       {"", "^[a-zA-Z0-9_-]+$", "(ab|c)*d?", "a{2,4}?", "(?:x(y(z)))+", "[^\\\\]]", "\\\\d+\\\\.\\\\d+"})
    EXPECT_TRUE(pattern.takes("\"" + std::string(text) + "\"")) << text;
  for (const char* text : {"*", "\\\\", "[a", "(", "a)", "a**", "{", "[z-a]", "a{3,2}", "(?<a"})
    EXPECT_FALSE(pattern.takes("\"" + std::string(text) + "\"")) << text;
}

TEST(JsonSchema, IntegersOfDraft4HaveNoFraction) {
  const Schema old(
      R"({"$schema": "http://json-schema.org/draft-04/schema#", "anyOf": [{"type": "integer", "minimum": 3}, {"type": "array", "items": {"enum": [1, 2.5], "type": "number"}}]})");
  EXPECT_TRUE(old.takes("3") && old.takes("12") && old.takes("[1, 2.5, 2.50]"));
  EXPECT_FALSE(old.takes("3.0") || old.takes("12.00") || old.takes("[1.0]"));
  const Schema now(R"({"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"})");
  EXPECT_TRUE(now.takes("3") && now.takes("3.0"));
}

TEST(JsonSchema, RefusesByPointer) {
  EXPECT_EQ(refused(R"({"properties": {"a/b": {"unevaluatedProperties": false}}})"),
            "#/properties/a~1b/unevaluatedProperties: this keyword cannot be kept");
  EXPECT_EQ(refused(R"({"oneOf": [{"type": "array", "minItems": 2}, {"uniqueItems": true}]})"),
            "#/oneOf/1/uniqueItems: inside of a negation this keyword cannot be kept");
  EXPECT_EQ(refused("false"), "#: no value is valid");
  EXPECT_EQ(refused(R"({"$ref": "#/$defs/x"})"), "#/$ref: nothing is at \"#/$defs/x\"");
  EXPECT_EQ(refused(R"({"$ref": "http://x/y"})"),
            "#/$ref: \"http://x/y\": only references inside of the schema can be followed");
  EXPECT_EQ(refused(R"({"type": "text"})"), "#/type: there is no type \"text\"");
  EXPECT_EQ(refused(R"({"items": 3})"), "#/items: a schema is an object or a boolean");
  EXPECT_EQ(refused(R"({"minLength": -1})"), "#/minLength: expected a whole number of 0 or more");
}

}  // namespace
}  // namespace heddle::grammar

// Each keyword by values that are valid and values that are not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/json_schema.h"
#include "grammar/parser.h"

namespace heddle::grammar {
namespace {

struct KeywordCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

void expect_cases(const std::vector<KeywordCase>& cases) {
  for (const KeywordCase& c : cases) {
    const auto grammar = std::make_shared<CompiledGrammar>(json_schema(nlohmann::ordered_json::parse(c.schema)));
    auto takes = [&](const char* text) {
      Position at(grammar);
      return at.take(text) && at.may_end();
    };
    for (const char* text : c.valid) EXPECT_TRUE(takes(text)) << c.schema << " should take " << text;
    for (const char* text : c.invalid) EXPECT_FALSE(takes(text)) << c.schema << " should not take " << text;
  }
}

TEST(JsonSchemaKeywords, Not) {
  expect_cases({
      {R"({"not": {"type": "string"}})", {"1", "null", "[\"a\"]", "{}"}, {"\"a\"", "\"\""}},
      {R"({"type": "number", "not": {"type": "integer"}})", {"1.5", "-0.01"}, {"1", "1.0", "-3"}},
      {R"({"not": {"const": 1}})", {"2", "1.5", "\"1\""}, {"1", "1.0"}},
      {R"({"type": "string", "not": {"enum": ["a", "bc"]}})",
       {"\"b\"", "\"\"", "\"abc\""},
       {"\"a\"", "\"bc\"", "\"\\u0061\""}},
      {R"({"type": "object", "not": {"required": ["a", "b"]}})",
       {"{}", R"({"a": 1})", R"({"b": 1, "c": 2})"},
       {R"({"a": 1, "b": 2})"}},
      {R"({"not": {"const": {"a": [1]}}})",
       {"{}", R"({"a": 1})", R"({"a": [2]})", R"({"a": [1], "b": 1})", "3"},
       {R"({"a": [1]})"}},
      {R"({"not": {"minimum": 3}})", {"2", "2.99", "-7"}, {"3", "4", "\"x\""}},
      {R"({"type": "string", "not": {"pattern": "^a.*z$"}})",
       {"\"a\"", "\"z\"", "\"baz\""},
       {"\"az\"", "\"a z\"", "\"\\u0061z\""}},
      {R"({"type": "array", "not": {"items": {"type": "integer"}}})", {"[1, \"a\"]", "[null]"}, {"[]", "[1, 2]"}},
      {R"({"type": "object", "not": {"additionalProperties": {"type": "integer"}}})",
       {R"({"a": "x"})", R"({"a": 1, "b": null})"},
       {"{}", R"({"a": 1})"}},
      {R"({"not": {"anyOf": [{"type": "string"}, {"type": "null"}]}})", {"1", "[]"}, {"\"a\"", "null"}},
      {R"({"not": {"not": {"type": "null"}}})", {"null"}, {"1", "\"null\""}},
      {R"({"type": "integer", "not": {"multipleOf": 3}})", {"1", "2", "-4"}, {"0", "3", "-9"}},
      {R"({"type": "object", "not": {"minProperties": 2}})", {"{}", R"({"a": 1})"}, {R"({"a": 1, "b": 2})"}},
  });
}

TEST(JsonSchemaKeywords, IfThenElse) {
  expect_cases({
      {R"({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {"type": "integer"}}, "required": ["kind"],
           "additionalProperties": false, "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]},
           "else": {"properties": {"x": false}}})",
       {R"({"kind": "a", "x": 1})", R"({"kind": "b"})"},
       {R"({"kind": "a"})", R"({"kind": "b", "x": 1})", "{}"}},
      {R"({"type": "integer", "if": {"maximum": 5}, "then": {"minimum": 3}})", {"3", "5", "6"}, {"2", "-1"}},
      {R"({"type": "integer", "if": {"maximum": 5}, "else": {"maximum": 9}})", {"3", "9"}, {"10"}},
  });
}

TEST(JsonSchemaKeywords, OneOfWithOverlap) {
  expect_cases({
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", {"1", "-3", "2.5", "\"x\""}, {"2", "3", "1.5"}},
      {R"({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
       {R"({"a": 1})", R"({"b": 1, "c": 2})"},
       {"{}", R"({"a": 1, "b": 2})"}},
      {R"({"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "b$"}]})",
       {"\"ac\"", "\"cb\""},
       {"\"ab\"", "\"c\""}},
      {R"({"oneOf": [true, false]})", {"1"}, {}},
  });
}

TEST(JsonSchemaKeywords, Dependencies) {
  expect_cases({
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}})",
       {"{}", R"({"b": 1})", R"({"a": 1, "b": 2})"},
       {R"({"a": 1})"}},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}})",
       {R"({"b": 1})", R"({"a": 1, "b": null})", R"({"a": 1})"},
       {R"({"a": 1, "b": 2})"}},
      {R"({"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"], "b": {"required": ["a"]}}})",
       {"{}", "1", R"({"a": 1, "b": 2})"},
       {R"({"a": 1})", R"({"b": 1})"}},
  });
}

TEST(JsonSchemaKeywords, Contains) {
  expect_cases({
      {R"({"type": "array", "contains": {"type": "integer"}})", {"[1]", "[\"a\", 1, null]"}, {"[]", "[\"a\"]"}},
      {R"({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 2})",
       {"[1, 1]", "[1, 2, 1, 3]"},
       {"[1]", "[1, 1, 1]", "[]"}},
      {R"({"type": "array", "contains": {"const": 1}, "minContains": 0})", {"[]", "[2]"}, {}},
      {R"({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "maxItems": 2})",
       {"[5]", "[1, 7]"},
       {"[1]", "[1, 2, 7]", "[5, \"x\"]"}},
      {R"({"type": "array", "contains": {"type": "integer"}, "allOf": [{"contains": {"type": "string"}}]})",
       {"[1, \"a\"]", "[\"a\", 1]"},
       {"[1]", "[\"a\"]"}},
  });
}

TEST(JsonSchemaKeywords, UniqueItems) {
  std::string many;
  for (int i = 0; i < 12; ++i) many += (i ? ", " : "") + std::to_string(i);
  const std::string schema = R"({"type": "array", "uniqueItems": true, "items": {"enum": [)" + many + "]}}";
  expect_cases({
      {R"({"type": "array", "items": {"enum": ["a", "b", 1, 1.0]}, "uniqueItems": true})",
       {"[]", R"(["b", "a", 1])", R"([1])"},
       {R"(["a", "a"])", "[1, 1.0]", R"(["c"])"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 2})",
       {"[true, false]", "[false, true]"},
       {"[true]", "[true, true]"}},
      {R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[7]"}, {"[7, 8]"}},
      {R"({"type": "array", "uniqueItems": true, "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false})",
       {R"(["a", 1])"},
       {"[1]"}},
      {schema.c_str(), {"[]", "[0, 3, 11]"}, {"[3, 3]", "[12]"}},
  });
}

TEST(JsonSchemaKeywords, NamesAndCounts) {
  expect_cases({
      {R"({"type": "object", "propertyNames": {"pattern": "^[ab]+$", "maxLength": 2}})",
       {"{}", R"({"a": 1, "ba": 2})"},
       {R"({"c": 1})", R"({"aaa": 1})"}},
      {R"({"type": "object", "minProperties": 1, "maxProperties": 2, "properties": {"a": {"type": "integer"}}})",
       {R"({"a": 1})", R"({"a": 1, "z": 2})", R"({"y": 1, "z": 2})"},
       {"{}", R"({"a": 1, "y": 2, "z": 3})", R"({"a": "x"})"}},
      {R"({"type": "object", "required": ["b"]})",
       {R"({"b": 1})", R"({"a": 1, "b": 2, "c": 3})"},
       {"{}", R"({"a": 1})"}},
      {R"({"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}, "additionalProperties": false})",
       {R"({"a": 1, "b": "x"})", R"({"ab": 3})"},
       {R"({"ab": 2})", R"({"ab": "x"})", R"({"c": 1})"}},
      {R"({"allOf": [{"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, {"patternProperties": {"b$": {"type": "integer"}}}], "type": "object"})",
       {R"({"ax": "s"})", R"({"ab": 1, "c": null})"},
       {R"({"b": 1})", R"({"b": null})", R"({"ab": null})"}},
  });
}

TEST(JsonSchemaKeywords, References) {
  expect_cases({
      {R"({"$id": "http://x/root.json", "$ref": "b.json", "$defs": {"b": {"$id": "b.json", "$ref": "#inner", "$defs": {"i": {"$anchor": "inner", "type": "null"}}}}})",
       {"null"},
       {"1"}},
      {R"({"definitions": {"a": {"$id": "#a", "type": "integer"}}, "$ref": "#a"})", {"1"}, {"null"}},
      {R"({"$defs": {"x%y": {"const": 1}}, "$ref": "#/$defs/x%25y"})", {"1"}, {"2"}},
      {R"({"$dynamicAnchor": "n", "type": "array", "items": {"$dynamicRef": "#n"}})", {"[]", "[[], [[]]]"}, {"[1]"}},
      {R"({"type": "object", "properties": {"c": {"$recursiveRef": "#"}}, "additionalProperties": false})",
       {"{}", R"({"c": {"c": {}}})"},
       {R"({"c": 1})"}},
  });
}

TEST(JsonSchemaKeywords, OlderDrafts) {
  expect_cases({
      {R"({"type": "number", "minimum": 1, "exclusiveMinimum": true, "maximum": 3, "exclusiveMaximum": false})",
       {"1.1", "3"},
       {"1", "3.1"}},
      {R"({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}})",
       {"[]", R"(["a", 1, 2])"},
       {R"([1])", R"(["a", "b"])"}},
      {R"({"type": "string", "nullable": true})", {"\"a\""}, {"null"}},
  });
}

TEST(JsonSchemaKeywords, ConstantsUnderOtherKeywords) {
  expect_cases({
      {R"({"enum": [1, 2, "a", {"b": 1}, [1], null], "not": {"type": "string"}, "anyOf": [{"minimum": 2}]})",
       {"2", R"({"b": 1})", "[1]", "null"},
       {"1", "\"a\""}},
      {R"({"const": {"a": 1, "b": [true]}, "required": ["a"]})",
       {R"({"a": 1, "b": [true]})", R"({ "a": 1.0, "b": [ true ] })"},
       {R"({"a": 1})"}},
      {R"({"enum": [{"k": "x"}, {"k": "y"}], "properties": {"k": {"const": "y"}}})",
       {R"({"k": "y"})"},
       {R"({"k": "x"})"}},
  });
}

TEST(JsonSchemaKeywords, Formats) {
  expect_cases({
      {R"({"type": "string", "format": "ipv6"})",
       {"\"::1\"", "\"2001:db8::8:800:200c:417a\"", "\"1:2:3:4:5:6:7:8\"", "\"::ffff:1.2.3.4\"", "\"::\"", "\"1::\"",
        "\"1:2:3:4:5:6:7::\""},
       {"\"1\"", "\"12345::\"", "\"1::2::3\"", "\"1:2:3:4:5:6:7:8:9\"", "\":1\"", "\"1:2:3:4:5:6:7:8::\""}},
      {R"({"type": "string", "format": "duration"})",
       {"\"P1D\"", "\"PT1H30M\"", "\"P2W\"", "\"P1Y2M3DT4H5M6S\""},
       {"\"P\"", "\"PT\"", "\"PT1D\"", "\"1D\""}},
      {R"({"type": "string", "format": "uuid"})",
       {"\"2eb8aa08-aa98-11ea-b4aa-73b441d16380\""},
       {"\"2eb8aa08-aa98-11ea-b4aa-73b441d1638\""}},
      {R"({"type": "string", "format": "some-own-format"})", {"\"anything\""}, {"1"}},
  });
}

}  // namespace
}  // namespace heddle::grammar

// Schemas that would need too much are refused, or kept in little space.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "grammar/json_schema.h"
#include "grammar/parser.h"

namespace heddle::grammar {
namespace {

using Json = nlohmann::ordered_json;

// The Error, or "kept".
std::string outcome(const Json& schema) {
  try {
    const auto grammar = std::make_shared<CompiledGrammar>(json_schema(schema));
    Position at(grammar);
    return "kept";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(JsonSchemaHostile, ManyCombinations) {
  Json all = Json::array();
  for (int i = 0; i < 40; ++i) {
    const std::string name(1, char('a' + i % 26));
    all.push_back({{"anyOf", {{{"required", {name + "1"}}}, {{"required", {name + "2"}}}, {{"minProperties", i}}}}});
  }
  EXPECT_TRUE(outcome({{"type", "object"}, {"allOf", all}}).starts_with("#"));
  // a oneOf of many that are all alike
  Json alike = Json::array();
  for (int i = 0; i < 3000; ++i) alike.push_back({{"minLength", i}});
  EXPECT_TRUE(outcome({{"oneOf", alike}}).starts_with("#"));
}

TEST(JsonSchemaHostile, DeepNesting) {
  Json schema = {{"type", "integer"}};
  for (int i = 0; i < 400; ++i) schema = Json::object({{"items", std::move(schema)}});
  EXPECT_EQ(outcome(schema), "kept");
  for (int i = 0; i < 200; ++i) schema = Json::object({{"items", std::move(schema)}});
  EXPECT_EQ(outcome(schema), "#: schemas are nested deeper than 500");
  for (const char* key : {"not", "anyOf"}) {
    Json deep = {{"type", "integer"}};
    for (int i = 0; i < 20'000; ++i)
      deep = Json::object({{key, std::string_view(key) == "not" ? std::move(deep) : Json::array({std::move(deep)})}});
    EXPECT_TRUE(outcome(deep).starts_with("#")) << key;
  }
}

TEST(JsonSchemaHostile, ReferencesInCircles) {
  EXPECT_EQ(outcome({{"$ref", "#"}}), "kept");
  EXPECT_EQ(outcome(Json::parse(
                R"({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})")),
            "kept");
  EXPECT_EQ(outcome(Json::parse(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})")),
            "#: no value is valid");
  EXPECT_NE(outcome(Json::parse(R"({"not": {"$ref": "#"}})")), "kept");
  EXPECT_TRUE(outcome(Json::parse(R"({"oneOf": [{"$ref": "#"}, {"type": "null"}]})")) != "");
}

TEST(JsonSchemaHostile, LargeCounts) {
  EXPECT_EQ(outcome({{"type", "string"}, {"minLength", 1'000'000}, {"maxLength", 900'000'000}}), "kept");
  EXPECT_TRUE(outcome({{"type", "array"}, {"minItems", 1'000'000}}).starts_with("#"));
  EXPECT_TRUE(outcome({{"type", "object"}, {"minProperties", 1'000'000}}).starts_with("#"));
  EXPECT_TRUE(outcome({{"contains", {{"type", "integer"}}}, {"minContains", 1'000'000}}).starts_with("#"));
  EXPECT_EQ(outcome({{"type", "string"}, {"pattern", "^((a{1000}){1000}){1000}$"}}),
            "#/pattern: a repetition of repetitions that counts to more than 20000 at byte 11 of the pattern "
            "\"^((a{1000}){1000}){1000}$\"");
  EXPECT_EQ(outcome({{"type", "string"}, {"pattern", "^a{30000}$"}}), "#: a language has more than 20000 states");
}

TEST(JsonSchemaHostile, LongLists) {
  Json values = Json::array(), properties = Json::object();
  for (int i = 0; i < 2000; ++i) {
    values.push_back("value number " + std::to_string(i));
    properties["name" + std::to_string(i)] = {{"type", "integer"}};
  }
  EXPECT_EQ(outcome({{"enum", values}}), "kept");
  EXPECT_EQ(outcome({{"enum", Json::array({std::string(100'000, 'x')})}}), "kept");
  EXPECT_EQ(outcome({{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}), "kept");
  EXPECT_TRUE(outcome({{"type", "array"}, {"uniqueItems", true}, {"items", {{"enum", values}}}, {"minItems", 50}})
                  .starts_with("#"));
}

}  // namespace
}  // namespace heddle::grammar

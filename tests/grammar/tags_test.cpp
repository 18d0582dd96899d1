#include "grammar/tags.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/grammar/random_grammar.h"

namespace heddle::grammar {
namespace {

using test::accepts;
using test::compile;
using TagJson = nlohmann::ordered_json;

std::shared_ptr<CompiledGrammar> tagged(const std::string& json) {
  return compile(structural_tag(TagJson::parse(json)));
}
std::shared_ptr<CompiledGrammar> formatted(const std::string& format) {
  return tagged(R"({"type": "structural_tag", "format": )" + format + "}");
}
std::string tag_error(const std::string& json) {
  try {
    tagged(json);
    return "none";
  } catch (const Error& e) {
    return e.what();
  }
}
std::string format_error(const std::string& format) {
  return tag_error(R"({"type": "structural_tag", "format": )" + format + "}");
}

const std::string weather = R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                                "additionalProperties": false})";

TEST(Tags, TheOlderForm) {
  const auto grammar = tagged(R"({"type": "structural_tag", "triggers": ["<function="], "structures": [
    {"begin": "<function=weather>", "schema": )" +
                              weather + R"(, "end": "</function>"},
    {"begin": "<function=none>", "schema": {"type": "null"}, "end": "</function>"}]})");
  for (const char* text : {"", "No call.", "Ask: <function=weather>{\"city\":\"Rome\"}</function>",
                           "<function=none>null</function> and <function=none>null</function> < done"})
    EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const char* text : {"<function=", "<function=other>", "<function=weather>{}</function>",
                           "<function=weather>{\"city\":\"Rome\"}", "<function=none>null</functio>"})
    EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(Tags, TriggeredTagsWithTheirFlags) {
  const auto with = [](const std::string& flags) {
    return formatted(R"({"type": "triggered_tags", "triggers": ["<f"], "tags": [{"type": "tag", "begin": "<f1>",
      "content": {"type": "const_string", "value": "x"}, "end": ["</f1>", "</f>"]}])" +
                     flags + "}");
  };
  const auto plain = with("");
  EXPECT_TRUE(accepts(plain, "a <f1>x</f1> b <f1>x</f>"));
  EXPECT_FALSE(accepts(plain, "a <f2>"));
  const auto first = with(R"(, "stop_after_first": true)");
  EXPECT_TRUE(accepts(first, "a <f1>x</f1>"));
  EXPECT_FALSE(accepts(first, "a <f1>x</f1> b"));
  const auto needed = with(R"(, "at_least_one": true)");
  EXPECT_TRUE(accepts(needed, "<f1>x</f1> b"));
  EXPECT_FALSE(accepts(needed, "a <f1>x</f1>"));
  EXPECT_FALSE(accepts(needed, ""));
  const auto exactly = with(R"(, "at_least_one": true, "stop_after_first": true)");
  EXPECT_TRUE(accepts(exactly, "<f1>x</f1>"));
  EXPECT_FALSE(accepts(exactly, "<f1>x</f1><f1>x</f1>"));
  EXPECT_FALSE(accepts(with(R"(, "excludes": ["no"])"), "a no"));
}

TEST(Tags, ThoughtsThenCallsInsideOfAnAnswer) {
  const auto grammar = formatted(R"({"type": "sequence", "elements": [
    {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"},
    {"type": "tag", "begin": "<answer>", "end": "</answer>", "content":
      {"type": "triggered_tags", "triggers": ["<f>"], "tags": [
        {"begin": "<f>", "content": {"type": "regex", "pattern": "[0-9]{2}"}, "end": ""}]}}]})");
  EXPECT_TRUE(accepts(grammar, "<think>\u00e9 <f>?</think><answer>a<f>12b</answer>"));
  EXPECT_TRUE(accepts(grammar, "<think></think><answer></answer>"));
  EXPECT_FALSE(accepts(grammar, "<think></think> <answer></answer>"));
  EXPECT_FALSE(accepts(grammar, "<think></think><answer><f>1</answer>"));
  EXPECT_FALSE(accepts(grammar, "<think></think><answer></answer> "));
}

TEST(Tags, Compositions) {
  const std::string x = R"({"type": "const_string", "value": "x"})";
  const auto with = [&](const std::string& type, const std::string& more) {
    return formatted(R"({"type": ")" + type + R"(", "content": )" + x + more + "}");
  };
  const auto lengths = [](const std::shared_ptr<CompiledGrammar>& grammar) {
    std::string all;
    for (size_t n = 0; n < 7; ++n)
      if (accepts(grammar, std::string(n, 'x'))) all += std::to_string(n);
    return all;
  };
  EXPECT_EQ(lengths(with("optional", "")), "01");
  EXPECT_EQ(lengths(with("plus", "")), "123456");
  EXPECT_EQ(lengths(with("star", "")), "0123456");
  EXPECT_EQ(lengths(with("repeat", R"(, "min": 2, "max": 4)")), "234");
  EXPECT_EQ(lengths(with("repeat", R"(, "min": 2, "max": -1)")), "23456");
  EXPECT_EQ(lengths(with("repeat", R"(, "min": 0, "max": 0)")), "0");
  const auto either = formatted(R"({"type": "or", "elements": [)" + x + R"(, {"type": "grammar",
    "grammar": "root ::= \"y\" root | \"z\""}, {"type": "grammar", "grammar": "start: \"w\"+"}]})");
  for (const char* text : {"x", "yyz", "ww"}) EXPECT_TRUE(accepts(either, text)) << text;
  EXPECT_FALSE(accepts(either, "xz"));
  const auto separated = formatted(R"({"type": "tags_with_separator", "separator": ", ", "tags": [
    {"type": "tag", "begin": "<", "content": )" +
                                   x + R"(, "end": ">"}]})");
  for (const char* text : {"", "<x>", "<x>, <x>, <x>"}) EXPECT_TRUE(accepts(separated, text)) << text;
  EXPECT_FALSE(accepts(separated, "<x>,<x>"));
  const auto dispatch = formatted(R"x({"type": "tag", "begin": "(", "end": ")", "content": {"type": "dispatch",
    "rules": [["#", )x" + x + R"(]], "loop": false, "excludes": ["!"]}
})");
  for (const char* text : {"()", "(ab)", "(ab#x)"}) EXPECT_TRUE(accepts(dispatch, text)) << text;
  for (const char* text : {"(ab#x#x)", "(ab!)", "(#)", "(#xa)"}) EXPECT_FALSE(accepts(dispatch, text)) << text;
}

TEST(Tags, ErrorsBeginWithAPointer) {
  EXPECT_EQ(tag_error("[]"), "#: expected an object, found array");
  EXPECT_EQ(tag_error(R"({"type": "json"})"), "#/type: expected \"structural_tag\"");
  EXPECT_EQ(tag_error("{}"), "#: expected a field structures");
  EXPECT_EQ(format_error(R"({"type": "any_text", "max_tokens": 5})"),
            "#/format/max_tokens: a limit on the length of free text cannot be kept");
  EXPECT_EQ(format_error(R"({"type": "any_text", "max_tokens": null})"), "none");
  EXPECT_EQ(format_error(R"({"type": "any_text", "x": 5})"),
            "#/format/x: this field cannot be kept; known are type, excludes, max_tokens, max_chars");
  EXPECT_EQ(format_error(R"({"type": "token", "token": 5})").substr(0, 38), "#/format/type: \"token\" cannot be kept;");
  EXPECT_EQ(format_error(R"({"type": "tag", "begin": {"type": "token", "token": 1}, "content": {}, "end": ""})"),
            "#/format/begin: expected a string, found object; tokens cannot be kept");
  EXPECT_EQ(format_error(R"({"type": "json_schema", "json_schema": {"type": "object"}, "style": "qwen_xml"})"),
            "#/format/style: only \"json\" can be kept");
  EXPECT_EQ(format_error(R"({"type": "sequence", "elements": [{"type": "json_schema", "json_schema":
                            {"properties": {"a": {"type": 5}}}}]})")
                .substr(0, 55),
            "#/format/elements/0/json_schema/properties/a/type: expe");
  EXPECT_EQ(format_error(R"({"type": "regex", "pattern": "("})").substr(0, 18), "#/format/pattern: ");
  EXPECT_EQ(format_error(R"({"type": "grammar", "grammar": "root ::= x"})"),
            "#/format/grammar: line 1, column 10: rule \"x\" is not defined");
  EXPECT_EQ(format_error(R"({"type": "triggered_tags", "triggers": ["<a"], "tags": [
                            {"begin": "<b>", "content": {"type": "any_text"}, "end": "x"}]})"),
            "#/format/tags/0/begin: \"<b>\" begins with none of the triggers");
  std::string deep = R"({"type": "any_text"})";
  for (int i = 0; i < 100; ++i) deep = R"({"type": "star", "content": )" + deep + "}";
  EXPECT_NE(format_error(deep).find("formats more than 64 deep"), std::string::npos);
}

}  // namespace
}  // namespace heddle::grammar

// The fields that say what a completion must be: what each means, and what is refused.
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

using Kind = grammar::Source::Kind;

struct Read {
  Kind kind;
  std::string text, field;
  bool operator==(const Read&) const = default;
};
void PrintTo(const Read& read, std::ostream* out) { *out << int(read.kind) << ' ' << read.field << ": " << read.text; }

// The same in chats and completions.
std::optional<Read> read(std::string_view fields) {
  const auto of = [](const std::optional<ConstraintField>& c) -> std::optional<Read> {
    if (!c) return std::nullopt;
    return Read{c->source.kind, c->source.text, c->field};
  };
  const auto in_chat = of(chat(fields).generation.constraint);
  EXPECT_EQ(of(complete(fields).generation.constraint), in_chat);
  return in_chat;
}

TEST(Constraints, FieldsThatAskForNone) {
  for (const char* fields :
       {"", R"("response_format":null)", R"("response_format":{"type":"text"})", R"("grammar":"")",
        R"("guided_json":null,"guided_decoding_backend":"xgrammar","guided_whitespace_pattern":null)",
        R"("structured_outputs":{})", R"("structured_outputs":{"json_object":false,"disable_any_whitespace":false})"})
    EXPECT_EQ(read(fields), std::nullopt) << fields;
}

TEST(Constraints, SchemasKeepTheOrderOfTheirKeys) {
  const std::string schema = R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}}})";
  const auto expect = [&](const std::string& fields, const std::string& field) {
    EXPECT_EQ(read(fmt::format(fmt::runtime(fields), schema)), (Read{Kind::json_schema, schema, field})) << fields;
  };
  expect(R"("response_format":{{"type":"json_schema","json_schema":{{"name":"x","schema":{},"strict":true}}}})",
         "response_format.json_schema.schema");
  expect(R"("response_format":{{"type":"json_schema","json_schema":{{"schema":{},"strict":false,"description":"d"}}}})",
         "response_format.json_schema.schema");
  expect(R"("response_format":{{"type":"json_schema","schema":{}}})", "response_format.schema");
  expect(R"("response_format":{{"type":"json_object","schema":{}}})", "response_format.schema");
  expect(R"("guided_json":{})", "guided_json");
  expect(R"("structured_outputs":{{"json":{}}})", "structured_outputs.json");
  expect(R"("json_schema":{})", "json_schema");
  EXPECT_EQ(read(R"("guided_json":"{\"type\":\"string\"}")"),
            (Read{Kind::json_schema, R"({"type":"string"})", "guided_json"}));
  EXPECT_EQ(read(R"("json_schema":{})"), (Read{Kind::json_schema, "{}", "json_schema"}));
}

TEST(Constraints, OtherKinds) {
  EXPECT_EQ(read(R"("response_format":{"type":"json_object"})"),
            (Read{Kind::json_schema, R"({"type":"object"})", "response_format"}));
  EXPECT_EQ(read(R"("structured_outputs":{"json_object":true})"),
            (Read{Kind::json_schema, R"({"type":"object"})", "structured_outputs.json_object"}));
  EXPECT_EQ(read(R"("guided_regex":"[ab]+")"), (Read{Kind::regex, "[ab]+", "guided_regex"}));
  EXPECT_EQ(read(R"("structured_outputs":{"regex":"[ab]+"})"),
            (Read{Kind::regex, "[ab]+", "structured_outputs.regex"}));
  EXPECT_EQ(read(R"("guided_choice":["yes","no"])"), (Read{Kind::choices, R"(["yes","no"])", "guided_choice"}));
  EXPECT_EQ(read(R"("structured_outputs":{"choice":["yes"]})"),
            (Read{Kind::choices, R"(["yes"])", "structured_outputs.choice"}));
  for (const std::string field : {"grammar", "guided_grammar"})
    EXPECT_EQ(read(fmt::format(R"("{}":"root ::= \"a\"")", field)),
              (Read{Kind::gbnf_or_lark, "root ::= \"a\"", field}));
  EXPECT_EQ(read(R"("structured_outputs":{"grammar":"start: \"a\""})"),
            (Read{Kind::gbnf_or_lark, "start: \"a\"", "structured_outputs.grammar"}));
  EXPECT_EQ(
      read(R"("response_format":{"type":"structural_tag","format":{"type":"any_text"}})"),
      (Read{Kind::structural_tag, R"({"type":"structural_tag","format":{"type":"any_text"}})", "response_format"}));
  EXPECT_EQ(read(R"("structured_outputs":{"structural_tag":"{\"type\":1}"})"),
            (Read{Kind::structural_tag, R"({"type":1})", "structured_outputs.structural_tag"}));
}

TEST(Constraints, WhatIsRefused) {
  EXPECT_BAD(chat(R"("response_format":{"type":"xml"})"), "response_format.type", "invalid_value", "json_schema",
             "found \"xml\"");
  EXPECT_BAD(chat(R"("response_format":{"type":"text","schema":{}})"), "response_format.schema", "unknown_parameter");
  EXPECT_BAD(chat(R"("response_format":{})"), "response_format.type", "missing_required_parameter");
  EXPECT_BAD(chat(R"("response_format":{"type":"json_schema"})"), "response_format.json_schema",
             "missing_required_parameter");
  EXPECT_BAD(chat(R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})"),
             "response_format.json_schema.schema", "missing_required_parameter");
  EXPECT_BAD(chat(R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"other":1}})"),
             "response_format.json_schema.other", "unknown_parameter");
  EXPECT_BAD(chat(R"("guided_json":[1])"), "guided_json", "invalid_type", "a schema, or its text");
  EXPECT_BAD(chat(R"("guided_choice":[])"), "guided_choice", "empty_array");
  EXPECT_BAD(chat(R"("guided_choice":["a",1])"), "guided_choice[1]", "invalid_type");
  EXPECT_BAD(chat(R"("guided_regex":1)"), "guided_regex", "invalid_type");
  EXPECT_BAD(chat(R"("guided_whitespace_pattern":" ")"), "guided_whitespace_pattern", "unsupported_value");
  EXPECT_BAD(chat(R"("structured_outputs":{"whitespace_pattern":" "})"), "structured_outputs.whitespace_pattern",
             "unsupported_value");
  EXPECT_BAD(chat(R"("structured_outputs":{"disable_any_whitespace":true})"),
             "structured_outputs.disable_any_whitespace", "unsupported_value");
  EXPECT_BAD(chat(R"("structured_outputs":{"xml":1})"), "structured_outputs.xml", "unknown_parameter");
  EXPECT_BAD(chat(R"("guided_regex":"a","response_format":{"type":"json_object"})"), "guided_regex", "invalid_value",
             "guided_regex: expected one constraint, found response_format as well");
  EXPECT_BAD(complete(R"("structured_outputs":{"regex":"a","choice":["b"]})"), "structured_outputs.choice",
             "invalid_value", "found structured_outputs.regex as well");
  EXPECT_BAD(complete(R"("grammar":"root ::= \"a\"","json_schema":{})"), "json_schema", "invalid_value");
}

}  // namespace
}  // namespace heddle::server

// Constraints from a request to its response: what is finished keeps them, and what cannot be kept is a 400.
#include "server/service/constraints.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/server/service/recorded_response.h"
#include "tests/server/service/weft_service.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

using grammar::Source;
using Kind = Source::Kind;

bool accepted(const Source& source, std::string_view text, bool whole) {
  grammar::Position at(std::make_shared<grammar::CompiledGrammar>(grammar::read(source)));
  return at.take(text) && (at.may_end() || !whole);
}

test::WeftService& weft_service() {
  static test::WeftService service;
  return service;
}

test::Recorded ask(const std::string& path, const std::string& body) {
  test::Recorded recorded;
  weft_service().service->handle({.method = "POST", .path = path, .body = body}, recorded.responder());
  return recorded;
}

struct Reply {
  std::string text, finish_reason;
  bool operator==(const Reply&) const = default;
};
Reply reply_of(const test::Recorded& recorded) {
  EXPECT_TRUE(recorded.wait_for_end());
  EXPECT_EQ(recorded.status(), 200u) << recorded.text();
  Reply reply;
  const auto add = [&](const Json& choice) {
    if (choice.contains("text")) reply.text += choice["text"].get<std::string>();
    for (const char* name : {"message", "delta"})
      if (choice.contains(name) && choice[name].contains("content"))
        reply.text += choice[name]["content"].get<std::string>();
    if (choice["finish_reason"].is_string()) reply.finish_reason = choice["finish_reason"];
  };
  if (!recorded.streamed()) {
    add(recorded.json()["choices"][0]);
    return reply;
  }
  for (const Json& chunk : recorded.chunks())
    for (const Json& choice : chunk["choices"]) add(choice);
  return reply;
}

std::string chat_body(const std::string& fields, uint32_t max_tokens, uint32_t seed, bool stream) {
  return fmt::format(
      R"({{"messages":[{{"role":"user","content":"Hello"}}],"temperature":1,"max_tokens":{},"seed":{},"stream":{},{}}})",
      max_tokens, seed, stream, fields);
}

const std::vector<std::pair<Source, std::string>>& constraints() {
  const auto schema = [](std::string text) {
    return std::pair(
        Source{Kind::json_schema, text},
        fmt::format(R"("response_format":{{"type":"json_schema","json_schema":{{"name":"n","schema":{}}}}})", text));
  };
  static const std::vector<std::pair<Source, std::string>> all{
      schema(R"({"type":"boolean"})"),
      schema(R"({"type":"object","properties":{"z":{"type":"integer"},"a":{"enum":["left","right"]}},)"
             R"("required":["z","a"],"additionalProperties":false})"),
      schema(R"({"type":"array","items":{"type":"number","minimum":-5,"maximum":5},"minItems":1,"maxItems":3})"),
      schema(R"({"type":"string","maxLength":10})"),
      {{Kind::json_schema, R"({"type":"object"})"}, R"("response_format":{"type":"json_object"})"},
      {{Kind::regex, "(red|green|blue) [0-9]{2}"}, R"("guided_regex":"(red|green|blue) [0-9]{2}")"},
      {{Kind::choices, R"(["yes","no","yes, but"])"}, R"("guided_choice":["yes","no","yes, but"])"},
      {{Kind::gbnf, "root ::= \"(\" root \")\" | [a-c]+"}, R"("grammar":"root ::= \"(\" root \")\" | [a-c]+")"},
      {{Kind::lark, "start: \"a\" start \"b\" | \"!\""},
       R"("structured_outputs":{"grammar":"start: \"a\" start \"b\" | \"!\""})"},
  };
  return all;
}

// All at once, streamed and not, twice; then one after another.
TEST(ServedConstraints, AreKept) {
  struct Asked {
    const Source* source;
    std::string body;
    test::Recorded recorded;
  };
  std::vector<Asked> crowd;
  for (uint32_t seed = 0; seed < 3; ++seed)
    for (const bool stream : {false, true})
      for (const auto& [source, fields] : constraints()) {
        std::string body = chat_body(fields, 60, seed, stream);
        crowd.push_back({&source, body, ask("/v1/chat/completions", body)});
      }
  uint32_t finished = 0;
  std::map<std::string, Reply> by_body;  // streamed or not, the same
  for (const Asked& asked : crowd) {
    const Reply reply = reply_of(asked.recorded);
    EXPECT_TRUE(reply.finish_reason == "stop" || reply.finish_reason == "length") << asked.recorded.text();
    EXPECT_TRUE(accepted(*asked.source, reply.text, reply.finish_reason == "stop"))
        << asked.source->text << "\n"
        << reply.text << " " << reply.finish_reason;
    finished += reply.finish_reason == "stop";
    std::string key = asked.body;
    key.erase(key.find("\"stream\""), 14);
    const auto [place, added] = by_body.emplace(key, reply);
    EXPECT_EQ(place->second, reply) << asked.body;
  }
  EXPECT_GE(finished, crowd.size() / 2);
  for (size_t i = 0; i < crowd.size(); i += 5)
    EXPECT_EQ(reply_of(ask("/v1/chat/completions", crowd[i].body)), reply_of(crowd[i].recorded));
}

TEST(ServedConstraints, InCompletions) {
  for (const auto& [source, fields] : constraints()) {
    const Reply reply = reply_of(
        ask("/v1/completions", fmt::format(R"({{"prompt":"One day","seed":3,"max_tokens":50,"n":1,{}}})", fields)));
    EXPECT_TRUE(accepted(source, reply.text, reply.finish_reason == "stop")) << reply.text;
  }
}

TEST(ServedConstraints, TooFewTokensAreALength) {
  const Reply reply = reply_of(ask("/v1/chat/completions", chat_body(constraints()[1].second, 2, 1, false)));
  EXPECT_EQ(reply.finish_reason, "length");
  EXPECT_TRUE(accepted(constraints()[1].first, reply.text, false));
}

TEST(ServedConstraints, WhatCannotBeKeptIsRefusedByItsPlace) {
  const auto refused = [](const std::string& fields, const std::string& param,
                          std::initializer_list<std::string_view> parts) {
    for (const bool stream : {false, true}) {
      const test::Recorded recorded = ask("/v1/chat/completions", chat_body(fields, 5, 1, stream));
      ASSERT_TRUE(recorded.wait_for_end());
      EXPECT_EQ(recorded.status(), 400u) << fields;
      const Json error = recorded.json()["error"];
      EXPECT_EQ(error["param"], param);
      test::expect_says(error["message"].get<std::string>(), parts);
    }
  };
  refused(
      R"("response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"type":"nothing"}}}}})",
      "response_format.json_schema.schema", {"response_format.json_schema.schema#/properties/a/type"});
  refused(R"("guided_json":"{")", "guided_json", {"guided_json#"});
  refused(R"("guided_regex":"(a")", "guided_regex", {"guided_regex: "});
  refused(R"("guided_regex":"a{0}")", "guided_regex", {"guided_regex: ", "empty"});
  refused(R"("grammar":"root ::= x")", "grammar", {"grammar: "});
  refused(R"("structured_outputs":{"structural_tag":{"type":"structural_tag","format":{"type":"x"}}})",
          "structured_outputs.structural_tag", {"structured_outputs.structural_tag#"});
  refused(fmt::format(R"("guided_regex":"{}")", std::string(Constraints::max_source + 1, 'a')), "guided_regex",
          {"expected at most 1048576 bytes"});
}

TEST(Constraints, AreCompiledOnceAndTheLastUsedAreKept) {
  Constraints all(weft_service().tokenizer, weft_service().world.model.vocabulary);
  const auto regex = [&](size_t i) { return all.compile({Kind::regex, std::string(i + 1, 'a')}); };
  const auto first = regex(0);
  std::weak_ptr<grammar::TokenMasks> second = regex(1);
  EXPECT_NE(first, all.compile({Kind::gbnf, "root ::= \"a\""}));
  for (size_t i = 2; i < Constraints::max_kept + 2; ++i) {
    EXPECT_EQ(first, regex(0));
    regex(i);
  }
  EXPECT_TRUE(second.expired());
  EXPECT_EQ(&first->vocabulary(), &regex(7)->vocabulary());
  EXPECT_REFUSED(all.compile({Kind::regex, "("}), "");
}

// Texts of a pattern with many states leave them in the grammar: it must not fail later requests for that.
TEST(Constraints, AreCompiledAfreshWhenTextsHaveAddedTooMuch) {
  Constraints all(weft_service().tokenizer, weft_service().world.model.vocabulary);
  const Source source{Kind::regex, "[ab]*a[ab]{19}"};
  const auto first = all.compile(source);
  grammar::Position at(first->grammar());
  for (uint32_t i = 0, random = 1; i < 500'000 && !first->is_full(); ++i) {
    ASSERT_EQ(all.compile(source), first);
    random = random * 1664525 + 1013904223;
    ASSERT_TRUE(at.take(random >> 31 ? 'a' : 'b'));
    first->mask(at);
  }
  EXPECT_TRUE(first->is_full());
  const auto second = all.compile(source);
  EXPECT_NE(second, first);
  EXPECT_EQ(all.compile(source), second);
}

}  // namespace
}  // namespace heddle::server

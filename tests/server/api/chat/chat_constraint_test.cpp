// Chats with tools on a model of no meaning: whatever it would write, its calls are of these tools and their arguments
// valid.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/server/service/service_fixture.h"
#include "tests/server/service/weft_service.h"

namespace heddle::server {
namespace {

using test::ServiceFixture;

// As Hermes, but that a thought is open when the prompt ends with "?".
const std::string hermes_template =
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1].content == 'q?' %}<think>{% endif %}";

const std::string tool_fields = R"("tools":[{"type":"function","function":{"name":"f","parameters":
  {"type":"object","properties":{"a":{"enum":["xy","zz"]},"n":{"type":"integer","minimum":3,"maximum":4}},
   "required":["a","n"],"additionalProperties":false}}}],"temperature":1,"seed":7,"max_tokens":150,"thinking_token_budget":3)";

void expect_valid(const std::string& arguments) {
  const Json json = parse_json(arguments, "arguments");
  EXPECT_EQ(json.size(), 2u) << arguments;
  EXPECT_TRUE(json["a"] == "xy" || json["a"] == "zz") << arguments;
  EXPECT_TRUE(json["n"] == 3 || json["n"] == 4) << arguments;
}

TEST(ChatConstraint, RequiredCallsAreMade) {
  ServiceFixture fixture({}, {}, 1000);
  fixture.serve(hermes_template);
  for (const bool stream : {false, true}) {
    const auto recorded = fixture.chat("x", tool_fields + R"(,"tool_choice":"required","parallel_tool_calls":false)" +
                                                (stream ? R"(,"stream":true)" : ""));
    if (!stream) {
      const Json response = parse_json(recorded.response().body, "response");
      ASSERT_TRUE(response.contains("choices")) << response;
      const Json& choice = response["choices"][0];
      EXPECT_EQ(choice["finish_reason"], "tool_calls") << recorded.response().body;
      EXPECT_EQ(choice["message"]["content"], nullptr);
      ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
      EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
      expect_valid(choice["message"]["tool_calls"][0]["function"]["arguments"]);
      continue;
    }
    std::string arguments, reason;
    for (const Json& chunk : recorded.chunks()) {
      const Json& choice = chunk["choices"][0];
      if (choice["delta"].contains("tool_calls"))
        arguments += choice["delta"]["tool_calls"][0]["function"]["arguments"].get<std::string>();
      if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
    }
    expect_valid(arguments);
    EXPECT_EQ(reason, "tool_calls");
  }
}

TEST(ChatConstraint, TemplatesWithoutToolsCallToo) {
  test::WeftService weft;
  test::Recorded recorded;
  weft.service->handle({.method = "POST",
                        .path = "/v1/chat/completions",
                        .body = ServiceFixture::chat_body("x", tool_fields + R"(,"parallel_tool_calls":false,
                          "tool_choice":{"type":"function","function":{"name":"f"}})"),
                        .peer = "127.0.0.1:5"},
                       recorded.responder());
  ASSERT_TRUE(recorded.wait_for_end());
  const Json response = parse_json(recorded.response().body, "response");
  ASSERT_TRUE(response.contains("choices")) << response;
  ASSERT_EQ(response["choices"][0]["message"]["tool_calls"].size(), 1u) << response;
  expect_valid(response["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]);
}

TEST(ChatConstraint, SchemasThatCannotBeKeptAreRefused) {
  ServiceFixture fixture({}, {}, 1000);
  fixture.serve(hermes_template);
  const auto recorded = fixture.chat("x", R"("tools":[{"type":"function","function":{"name":"f","parameters":
    {"type":"object","properties":{"a":{"type":"string","pattern":"("}}}}}])");
  EXPECT_EQ(recorded.response().status, 400u);
  const Json error = parse_json(recorded.response().body, "response")["error"];
  EXPECT_EQ(error["param"], "tools");
  EXPECT_TRUE(error["message"].get<std::string>().starts_with("tools: f: #/properties/a/pattern: ")) << error;
}

// The model counts on from its last letter and would think for ever.
TEST(ChatConstraint, ABudgetEndsTheThought) {
  ServiceFixture fixture({}, {}, 1000);
  fixture.serve(hermes_template);
  for (const uint32_t budget : {0u, 5u}) {
    const auto recorded = fixture.chat("q?", fmt::format(R"("thinking_token_budget":{},"max_tokens":40)", budget));
    const Json message = parse_json(recorded.response().body, "response")["choices"][0]["message"];
    const std::string thought = message.value("reasoning_content", "");
    EXPECT_EQ(thought.size(), budget) << recorded.response().body;
    EXPECT_FALSE(message["content"].get<std::string>().empty());
  }
  const auto none = fixture.chat("q?", R"("reasoning_effort":"none","max_tokens":20)");
  EXPECT_FALSE(parse_json(none.response().body, "response")["choices"][0]["message"].contains("reasoning_content"));
}

TEST(ChatConstraint, ASchemaAppliesBehindTheThought) {
  ServiceFixture fixture({}, {}, 1000);
  fixture.serve(hermes_template);
  const std::string fields = R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
    {"type":"integer","minimum":10,"maximum":12}}},"max_tokens":60,"temperature":1,"seed":3)";
  for (const std::string text : {"q?", "x"}) {
    const auto recorded = fixture.chat(text, fields + R"(,"thinking_token_budget":4)");
    const Json response = parse_json(recorded.response().body, "response");
    ASSERT_TRUE(response.contains("choices")) << response;
    const Json& message = response["choices"][0]["message"];
    ASSERT_EQ(response["choices"][0]["finish_reason"], "stop") << response;
    const int value = std::stoi(message["content"].get<std::string>());
    EXPECT_TRUE(value >= 10 && value <= 12) << message;
  }
}

TEST(ChatConstraint, CallsAndResultsAreRendered) {
  ServiceFixture fixture({}, {}, 500);
  fixture.serve(hermes_template);
  const auto recorded = fixture.post("/apply-template", R"({"messages":[{"role":"user","content":"x"},
    {"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{"id":"1","type":"function",
     "function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},
    {"role":"tool","tool_call_id":"1","content":"r"}],"tools":[{"type":"function","function":{"name":"f"}}]})");
  const std::string prompt = parse_json(recorded.response().body, "response")["prompt"];
  EXPECT_EQ(prompt,
            "<s>[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]x<think>hm</think>"
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}</tool_call>r");
}

}  // namespace
}  // namespace heddle::server

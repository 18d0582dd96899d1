// What real clients send besides the prompt: taken, with the names of fields that have no effect; refused by a strict
// server where it is ignored, and by every server where it would change the answer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/api/json.h"
#include "server/api/openai/openai_chat.h"
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

using Names = std::vector<std::string>;

struct Taken {
  std::string fields;
  Names ignored;
};

// The fields that a tolerant server ignores; strict ones refuse those, and take the rest.
template <class Read>
void expect_taken(const Taken& taken, const std::string& body, Read&& read) {
  SCOPED_TRACE(taken.fields);
  IgnoredFields ignored;
  const auto error = api_error_of([&] {
    read(body, RequestRules{small_rules().tokenizer, small_rules().vocabulary, &ignored});
  });
  EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(ignored.names(), taken.ignored);
  const auto strict = api_error_of([&] { read(body, small_rules()); });
  EXPECT_EQ(strict.has_value(), !taken.ignored.empty()) << (strict ? strict->what() : "was not refused");
  EXPECT_EQ(strict ? strict->status : 400u, 400u);
}

TEST(Tolerance, FieldsOfAChat) {
  const std::vector<Taken> all = {
      {R"("store":true)", {"store"}},
      {R"("store":false)", {}},
      {R"("metadata":{"a":"b"})", {"metadata"}},
      {R"("reasoning_effort":"none")", {}},
      {R"("reasoning_effort":"minimal")", {}},
      {R"("reasoning_effort":"xhigh")", {}},
      {R"("verbosity":"low")", {"verbosity"}},
      {R"("verbosity":"medium")", {}},
      {R"("service_tier":"flex")", {"service_tier"}},
      {R"("service_tier":"priority")", {"service_tier"}},
      {R"("service_tier":"auto")", {}},
      {R"("prompt_cache_retention":"24h")", {"prompt_cache_retention"}},
      {R"("prompt_cache_key":"k")", {}},
      {R"("prediction":{"type":"content","content":"x"})", {"prediction"}},
      {R"("stream":true,"stream_options":{"include_obfuscation":true})", {"stream_options.include_obfuscation"}},
      {R"("stream":true,"stream_options":{"include_obfuscation":false})", {}},
      {R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})",
       {"stream_options.continuous_usage_stats"}},
      {R"("stream_options":{"include_usage":true})", {}},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")", {}},
      {R"("tools":[],"tool_choice":"none")", {}},
      {R"("user":"u","safety_identifier":"s")", {}},
      {R"("top_logprobs":0,"logprobs":false)", {}},
      {R"("stop":"")", {}},
      {R"("stop":[])", {}},
      {R"("stop":[""])", {}},
      {R"("max_tokens":-1)", {}},
      {R"("max_tokens":32000)", {}},
      {R"("max_tokens":7,"max_completion_tokens":7)", {}},
      {R"("max_tokens":7,"max_completion_tokens":9)", {"max_tokens"}},
      {R"("best_of":1)", {}},
      {R"("min_tokens":0)", {}},
      {R"("use_beam_search":false,"length_penalty":1.0,"early_stopping":false)", {}},
      {R"("n_probs":0)", {}},
      {R"("id_slot":-1)", {}},
      {R"("id_slot":3)", {"id_slot"}},
      {R"("think":false)", {}},
      {R"("think":true)", {}},
      {R"("keep_alive":"5m")", {"keep_alive"}},
      {R"("options":{})", {}},
      {R"("skip_special_tokens":true,"spaces_between_special_tokens":true)", {}},
      {R"("include_stop_str_in_output":false,"ignore_eos":false,"stop_token_ids":[])", {}},
      {R"("echo":false,"add_generation_prompt":true,"add_special_tokens":false)", {}},
      {R"("repetition_penalty":1.0,"top_k":-1,"min_p":0.0)", {}},
      {R"("repeat_penalty":1.0,"top_k":0,"typical_p":1.0,"mirostat":0)", {}},
      {R"("n_predict":-1,"n_keep":0,"cache_prompt":true,"samplers":["top_k","temperature"])", {}},
      {R"("return_token_ids":false,"return_tokens_as_token_ids":false,"logits_processors":[])", {}},
      {R"("include_reasoning":true,"reasoning_format":"auto","parse_tool_calls":true)", {}},
      {R"("modalities":["text"],"parallel_tool_calls":true,"function_call":"none","functions":[])", {}},
      {R"("logit_bias":{},"seed":null,"n":1,"response_format":{"type":"text"})", {}},
      {R"("a_field_of_tomorrow":{"x":[1]})", {"a_field_of_tomorrow"}},
      {R"("temperature":null,"top_p":null,"stop":null,"tools":null,"tool_choice":null,"store":null,"user":null)", {}},
  };
  for (const Taken& one : all)
    expect_taken(one, with_message(one.fields),
                 [](const std::string& body, const RequestRules& rules) { read_chat(body, rules); });
}

TEST(Tolerance, FieldsOfACompletion) {
  const std::vector<Taken> all = {
      {R"("suffix":"","best_of":1,"echo":false)", {}},
      {R"("echo":true,"best_of":2,"n":2)", {}},
      {R"("suffix":null,"logprobs":null,"stop":"","user":"u")", {}},
      {R"("max_tokens":-1)", {}},
      {R"("add_special_tokens":true,"prompt_logprobs":null,"truncate_prompt_tokens":-1)", {}},
      {R"("store":true,"verbosity":"low")", {"verbosity", "store"}},
      {R"("min_tokens":0,"n_probs":0,"n_keep":-1,"keep_alive":0)", {"keep_alive"}},
  };
  for (const Taken& one : all)
    expect_taken(one, with_prompt(one.fields),
                 [](const std::string& body, const RequestRules& rules) { read_completion(body, rules); });
}

TEST(Tolerance, MembersOfMessages) {
  const std::string question = R"({"role":"user","content":"x"})";
  const std::vector<Taken> all = {
      {R"({"role":"assistant","content":null})", {}},
      {R"({"role":"assistant"})", {}},
      {R"({"role":"assistant","content":"y","reasoning":"r"})", {}},
      {R"({"role":"assistant","content":"y","reasoning_details":[{"type":"x"}]})", {"messages[].reasoning_details"}},
      {R"({"role":"assistant","content":"y","tool_calls":null,"refusal":null,"annotations":[],"audio":null})", {}},
      {R"({"role":"assistant","content":"y","tool_calls":[]})", {}},
      {R"({"role":"user","content":[{"type":"text","text":"y","cache_control":{"type":"ephemeral"}}]})",
       {"messages[].content[].cache_control"}},
      {R"({"role":"user","content":"y","id":"msg_1","timestamp":12})", {"messages[].id", "messages[].timestamp"}},
      {R"({"role":"user","content":"y","name":"Bob"})", {}},
  };
  for (const Taken& one : all)
    expect_taken(one, R"({"messages":[)" + question + "," + one.fields + "," + question + "]}",
                 [](const std::string& body, const RequestRules& rules) { read_chat(body, rules); });
}

// What would change the answer is refused by every server, by name.
TEST(Tolerance, WhatWouldChangeTheAnswerIsRefused) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {R"("best_of":2)", "best_of"},
      {R"("min_tokens":5)", "min_tokens"},
      {R"("use_beam_search":true)", "use_beam_search"},
      {R"("n_probs":3)", "n_probs"},
      {R"("n_predict":20)", "n_predict"},
      {R"("n_cmpl":2)", "n_cmpl"},
      {R"("web_search_options":{})", "web_search_options"},
      {R"("prompt_logprobs":0)", "prompt_logprobs"},
      {R"("logits_processors":["a"])", "logits_processors"},
      {R"("include_reasoning":false)", "include_reasoning"},
      {R"("reasoning_format":"none")", "reasoning_format"},
      {R"("format":"json")", "format"},
      {R"("options":{"num_ctx":4096})", "options"},
      {R"("modalities":["text","audio"])", "modalities"},
      {R"("echo":true)", "echo"},
      {R"("skip_special_tokens":false)", "skip_special_tokens"},
      {R"("bad_words":["a"])", "bad_words"},
      {R"("lora":[{"id":0,"scale":1}])", "lora"},
      {R"("functions":[{"name":"f"}])", "functions"},
  };
  for (const auto& [fields, name] : all) {
    SCOPED_TRACE(fields);
    IgnoredFields ignored;
    const std::string body = with_message(fields);
    const auto error = api_error_of([&] {
      read_chat(body, RequestRules{small_rules().tokenizer, small_rules().vocabulary, &ignored});
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, 400u);
    EXPECT_EQ(error->param, name);
    EXPECT_EQ(error->code, "unsupported_parameter");
    EXPECT_TRUE(ignored.names().empty());
  }
  EXPECT_BAD(complete(R"("add_special_tokens":false)"), "add_special_tokens", "unsupported_parameter", "expected null");
}

TEST(Tolerance, ValuesThatSayTheSame) {
  EXPECT_EQ(chat(R"("think":false)").thinking.effort, "none");
  EXPECT_EQ(chat(R"("think":true)").thinking.effort, "");
  EXPECT_EQ(chat(R"("think":false,"reasoning_effort":"low")").thinking.effort, "low");
  EXPECT_EQ(chat(R"("max_tokens":-1)").generation.max_tokens, std::nullopt);
  EXPECT_EQ(chat(R"("max_completion_tokens":5)").generation.max_tokens, 5u);
  EXPECT_TRUE(chat(R"("stop":"")").generation.stop_strings.empty());
  EXPECT_EQ(chat(R"("user":"u","safety_identifier":"s")").generation.user, "s");
  EXPECT_FALSE(bool(chat(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")").tools));
}

}  // namespace
}  // namespace heddle::server

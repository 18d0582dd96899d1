// The body of a response, all but its items and tools.
#include "server/api/responses/responses.h"
#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

using Ordered = nlohmann::ordered_json;

ResponsesRequest respond(std::string_view fields, IgnoredFields* ignored = nullptr,
                         const ResponseStore& store = ResponseStore({})) {
  RequestRules rules = small_rules();
  rules.ignored = ignored;
  return read_response(fmt::format(R"({{"input":"x"{}{}}})", fields.empty() ? "" : ",", fields), rules, store);
}

TEST(ResponseRequest, Defaults) {
  const ResponsesRequest request = respond("");
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(request.conversation.messages, R"([{"role":"user","content":"x"}])");
  EXPECT_EQ(request.conversation.field, "input");
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.store);
  EXPECT_FALSE(request.wraps_thoughts);
  EXPECT_FALSE(request.truncates);
  EXPECT_EQ(request.generation.max_tokens, std::nullopt);
  EXPECT_FALSE(request.generation.constraint);
  EXPECT_FALSE(request.generation.sampling.logprobs);
  EXPECT_EQ(Json::parse(request.response.dump()), Json::parse(R"({"instructions":null,"previous_response_id":null,
    "parallel_tool_calls":true,"tool_choice":"auto","tools":[],"reasoning":{"effort":null,"summary":null},
    "text":{"format":{"type":"text"},"verbosity":"medium"},"top_logprobs":0,"store":true,"truncation":"disabled",
    "metadata":{},"user":null,"safety_identifier":null,"prompt_cache_key":null,"max_output_tokens":null,
    "max_tool_calls":null,"temperature":1,"top_p":1})"));
}

TEST(ResponseRequest, Values) {
  const ResponsesRequest request = respond(R"("model":"m","stream":true,"store":false,"max_output_tokens":7,
    "temperature":0.7,"top_p":0.9,"seed":4,"reasoning":{"effort":"low"},"truncation":"auto","metadata":{"b":"1","a":"2"},
    "user":"u","prompt_cache_key":"k","instructions":"Be brief.","include":["reasoning.encrypted_content"])");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(request.store);
  EXPECT_EQ(request.generation.max_tokens, 7u);
  EXPECT_EQ(request.generation.sampling.temperature, 0.7f);
  EXPECT_EQ(request.generation.sampling.top_p, 0.9f);
  EXPECT_EQ(request.generation.sampling.seed, 4u);
  EXPECT_EQ(request.generation.user, "u");
  EXPECT_EQ(request.thinking.effort, "low");
  EXPECT_TRUE(request.truncates);
  EXPECT_TRUE(request.wraps_thoughts);
  EXPECT_EQ(request.conversation.messages,
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"x"}])");
  EXPECT_EQ(request.response["temperature"].dump(), "0.7");
  EXPECT_EQ(request.response["metadata"].dump(), R"({"b":"1","a":"2"})");
  EXPECT_EQ(request.response["reasoning"].dump(), R"({"effort":"low","summary":null})");
  EXPECT_EQ(request.response["instructions"], "Be brief.");
  EXPECT_EQ(request.response["max_output_tokens"], 7);
}

TEST(ResponseRequest, Formats) {
  const auto constraint = [](std::string_view format) {
    return respond(fmt::format(R"("text":{{"format":{}}})", format)).generation.constraint;
  };
  const auto schema = constraint(
      R"({"type":"json_schema","name":"n","strict":true,"schema":{"type":"object","properties":{"b":{},"a":{}}}})");
  ASSERT_TRUE(schema);
  EXPECT_EQ(schema->source.kind, grammar::Source::Kind::json_schema);
  EXPECT_EQ(schema->source.text, R"({"type":"object","properties":{"b":{},"a":{}}})");
  EXPECT_EQ(schema->field, "text.format.schema");
  ASSERT_TRUE(constraint(R"({"type":"json_object"})"));
  EXPECT_EQ(constraint(R"({"type":"json_object"})")->source.text, R"({"type":"object"})");
  EXPECT_FALSE(constraint(R"({"type":"text"})"));
  EXPECT_BAD(constraint(R"({"type":"xml"})"), "text.format.type", "invalid_value", "json_schema", "xml");
  EXPECT_BAD(constraint(R"({"type":"json_schema","name":"n"})"), "text.format.schema", "missing_required_parameter",
             "missing");
  EXPECT_BAD(constraint(R"({"type":"json_schema","schema":5})"), "text.format.schema", "invalid_type", "a schema");
}

TEST(ResponseRequest, LogProbabilities) {
  EXPECT_EQ(respond(R"("include":["message.output_text.logprobs"])").generation.sampling.logprobs, 0u);
  EXPECT_EQ(respond(R"("include":["message.output_text.logprobs"],"top_logprobs":3)").generation.sampling.logprobs, 3u);
  EXPECT_EQ(respond(R"("top_logprobs":2)").generation.sampling.logprobs, 2u);
  EXPECT_FALSE(respond(R"("top_logprobs":0)").generation.sampling.logprobs);
}

// What Codex sends, and what others send, without effect here.
TEST(ResponseRequest, TakenWithoutEffect) {
  IgnoredFields ignored;
  respond(R"("client_metadata":{"a":"b"},"max_tool_calls":3,"service_tier":"flex","prompt_cache_retention":"24h",
    "text":{"verbosity":"low"},"reasoning":{"summary":"auto"},"include":["file_search_call.results"],
    "stream_options":{"include_obfuscation":true},"context_management":[],"wings":2)",
          &ignored);
  EXPECT_EQ(ignored.names(),
            (std::vector<std::string>{"reasoning.summary", "text.verbosity", "include",
                                      "stream_options.include_obfuscation", "service_tier", "prompt_cache_retention",
                                      "client_metadata", "max_tool_calls", "context_management", "wings"}));
  IgnoredFields none;
  respond(
      R"("service_tier":"auto","prompt_cache_retention":"in_memory","text":{"verbosity":"medium"},"background":false,
    "stream_options":{"include_obfuscation":false},"conversation":null,"prompt":null,"store":null,"include":[])",
      &none);
  EXPECT_EQ(none.names(), std::vector<std::string>{});
  EXPECT_BAD(respond(R"("client_metadata":{"a":"b"})"), "client_metadata", "unsupported_parameter", "no effect");
  EXPECT_BAD(respond(R"("wings":2)"), "wings", "unknown_parameter", "wings");
}

TEST(ResponseRequest, Refused) {
  EXPECT_BAD(respond(R"("background":true,"store":false)"), "background", "", "\"store\": true", "found false");
  EXPECT_BAD(respond(R"("background":1)"), "background", "invalid_type", "found 1");
  EXPECT_BAD(respond(R"("conversation":"conv_1")"), "conversation", "unsupported_parameter", "previous_response_id",
             "conv_1");
  EXPECT_BAD(respond(R"("prompt":{"id":"pmpt_1"})"), "prompt", "unsupported_parameter", "templates of prompts");
  EXPECT_BAD(respond(R"("truncation":"middle")"), "truncation", "invalid_value", "\"auto\"", "middle");
  EXPECT_BAD(respond(R"("reasoning":{"effort":"much"})"), "reasoning.effort", "invalid_value", "minimal", "much");
  EXPECT_BAD(respond(R"("metadata":{"a":1})"), "metadata.\"a\"", "invalid_type", "a string");
  EXPECT_BAD(respond(R"("metadata":[])"), "metadata", "invalid_type", "an object");
  EXPECT_BAD(respond(R"("top_logprobs":21)"), "top_logprobs", "integer_above_max_value", "0 to 20");
  EXPECT_BAD(respond(R"("max_output_tokens":0)"), "max_output_tokens", "integer_below_min_value", "found 0");
  EXPECT_BAD(respond(R"("include":"all")"), "include", "invalid_type", "a list");
  EXPECT_BAD(read_response("{}", small_rules(), ResponseStore({})), "input", "missing_required_parameter", "missing");
  EXPECT_BAD(read_response(R"({"input":[]})", small_rules(), ResponseStore({})), "input", "empty_array", "one item");
}

TEST(ResponseRequest, ContinuesAResponse) {
  ResponseStore store({});
  store.add({.id = "resp_1",
             .json = "{}",
             .input = {},
             .output = {},
             .messages = R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])"});
  const ResponsesRequest request = respond(R"("previous_response_id":"resp_1","instructions":"New.")", nullptr, store);
  EXPECT_EQ(request.conversation.messages,
            R"([{"role":"system","content":"New."},{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
            R"({"role":"user","content":"x"}])");
  EXPECT_EQ(request.input.items.size(), 1u);
  EXPECT_EQ(request.response["previous_response_id"], "resp_1");
  // without anything new the model goes on
  EXPECT_EQ(read_response(R"({"previous_response_id":"resp_1"})", small_rules(), store).messages.size(), 2u);
  EXPECT_BAD(respond(R"("previous_response_id":"resp_2")", nullptr, store), "previous_response_id",
             "previous_response_not_found", "resp_2", "never stored");
}

TEST(ResponseRequest, SystemMessagesAtTheBeginningAreOne) {
  const Ordered messages = Ordered::parse(R"([{"role":"system","content":"b"},{"role":"system","content":"c"},
    {"role":"user","content":"d"},{"role":"system","content":"e"}])");
  EXPECT_EQ(prompt_messages("a", messages),
            R"([{"role":"system","content":"a\n\nb\n\nc"},{"role":"user","content":"d"},)"
            R"({"role":"system","content":"e"}])");
  EXPECT_EQ(prompt_messages("", Ordered::parse(R"([{"role":"user","content":"d"}])")),
            R"([{"role":"user","content":"d"}])");
}

TEST(ResponseRequest, TheOldestAreLeftOut) {
  const Ordered messages = Ordered::parse(R"([{"role":"system","content":"s"},{"role":"user","content":"1"},
    {"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"3"},{"role":"tool","content":"4"},
    {"role":"user","content":"5"},{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"7"}])");
  const auto left = [&](size_t count) {
    std::string text;
    for (const Ordered& message : without_oldest(messages, count))
      text += message["content"].is_null() ? "c" : message["content"].get<std::string>();
    return text;
  };
  EXPECT_EQ(left(0), "s1c345c7");
  EXPECT_EQ(left(1), "s5c7");  // an answer to what is left out is left out too, with its results
  EXPECT_EQ(left(2), "s5c7");
  EXPECT_EQ(left(4), "s5c7");
  EXPECT_EQ(left(5), "sc7");
  EXPECT_EQ(left(100), "sc7");
  EXPECT_EQ(without_oldest(Ordered::array(), 3).size(), 0u);
}

}  // namespace
}  // namespace heddle::server

// The body of a chat: messages, what the template gets, fields that heddle does not support. Then its responses by
// value, whole and as chunks.
#include "server/api/openai/openai_chat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tests/server/api/request_fixture.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

using nlohmann::json;

ChatRequest messages(std::string_view list) {
  return read_chat(fmt::format(R"({{"messages":{}}})", list), small_rules());
}
std::string content(std::string_view text) {  // of the only message
  return json::parse(
      messages(fmt::format(R"([{{"role":"user","content":{}}}])", text)).conversation.messages)[0]["content"];
}

TEST(ChatRequests, MessagesAsTemplatesTakeThem) {
  const ChatRequest request = messages(R"([
    {"role":"developer","content":"Be brief."},
    {"role":"system","content":"Be kind.","name":"rules"},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"Ada"},
    {"role":"assistant","content":"\u00e4","refusal":null,"tool_calls":[],"annotations":[],"reasoning_content":"hm"},
    {"role":"assistant","content":"","audio":null,"function_call":null,"parsed":{"a":[1]}}])");
  EXPECT_EQ(json::parse(request.conversation.messages), json::parse(R"([
    {"role":"system","content":"Be brief."},
    {"role":"system","content":"Be kind.","name":"rules"},
    {"role":"user","content":"ab","name":"Ada"},
    {"role":"assistant","content":"\u00e4","reasoning_content":"hm"},
    {"role":"assistant","content":""}])"));
  EXPECT_EQ(request.conversation.variables, "");
  EXPECT_TRUE(request.conversation.add_generation_prompt);
  EXPECT_EQ(request.model, "");
}

TEST(ChatRequests, Contents) {
  EXPECT_EQ(content(R"("a\"\n\u0000")"), std::string("a\"\n\0", 4));
  EXPECT_EQ(content(R"("")"), "");
  EXPECT_EQ(content(R"([{"type":"text","text":""}])"), "");
  EXPECT_BAD(content("null"), "messages[0].content", "missing_required_parameter");
  EXPECT_BAD(content("7"), "messages[0].content", "invalid_type", "a string or a list of text parts", "found 7");
  EXPECT_EQ(content("[]"), "");
  EXPECT_BAD(content(R"(["a"])"), "messages[0].content[0]", "invalid_type", "expected an object", "found \"a\"");
  EXPECT_BAD(content(R"([{"text":"a"}])"), "messages[0].content[0].type", "missing_required_parameter");
  EXPECT_BAD(content(R"([{"type":"text"}])"), "messages[0].content[0].text", "missing_required_parameter");
  EXPECT_BAD(content(R"([{"type":"text","text":7}])"), "messages[0].content[0].text", "invalid_type");
  for (const char* type : {"image_url", "input_audio", "file", "refusal", "x"})
    EXPECT_BAD(content(fmt::format(R"([{{"type":"text","text":"a"}},{{"type":"{}"}}])", type)),
               "messages[0].content[1].type", "unsupported_value", "expected \"text\"", type);
  EXPECT_BAD(content(R"([{"type":"text","text":"a","cache_control":{}}])"), "messages[0].content[0].cache_control",
             "unsupported_parameter", "has no effect here");
}

TEST(ChatRequests, RefusesBadMessages) {
  EXPECT_BAD(read_chat("{}", small_rules()), "messages", "missing_required_parameter");
  EXPECT_BAD(messages("[]"), "messages", "empty_array");
  EXPECT_BAD(messages(R"("hi")"), "messages", "invalid_type", "a list");
  EXPECT_BAD(messages("[7]"), "messages[0]", "invalid_type");
  EXPECT_BAD(messages(R"([{"content":"x"}])"), "messages[0].role", "missing_required_parameter");
  EXPECT_BAD(messages(R"([{"role":"user"}])"), "messages[0].content", "missing_required_parameter");
  EXPECT_BAD(messages(R"([{"role":"king","content":"x"}])"), "messages[0].role", "invalid_value",
             "system, developer, user, assistant or tool", "\"king\"");
  EXPECT_BAD(messages(R"([{"role":7,"content":"x"}])"), "messages[0].role", "invalid_type");
  EXPECT_BAD(messages(R"([{"role":"function","content":"x"}])"), "messages[0].role", "unsupported_value", "tool",
             "found function");
  EXPECT_BAD(messages(R"([{"role":"user","content":"x","name":7}])"), "messages[0].name", "invalid_type");
  EXPECT_BAD(messages(R"([{"role":"user","content":"x","tool_calls":[]}])"), "messages[0].tool_calls",
             "unknown_parameter");
  EXPECT_BAD(messages(R"([{"role":"assistant","content":"x","refusal":"no"}])"), "messages[0].refusal",
             "unsupported_parameter");
  std::string many = "[";
  for (int i = 0; i < 10'000; ++i) many += R"({"role":"user","content":"x"},)";
  EXPECT_BAD(messages(many + R"({"role":"user","content":"x"}])"), "messages", "array_above_max_length", "10000");
}

TEST(ChatRequests, TemplateVariables) {
  EXPECT_EQ(json::parse(chat(R"("chat_template_kwargs":{"enable_thinking":false,"x":[1]})").conversation.variables),
            json::parse(R"({"enable_thinking":false,"x":[1]})"));
  EXPECT_EQ(chat(R"("chat_template_kwargs":null)").conversation.variables, "");
  EXPECT_BAD(chat(R"("chat_template_kwargs":[])"), "chat_template_kwargs", "invalid_type");
  EXPECT_BAD(chat(R"("chat_template_kwargs":{"messages":[]})"), "chat_template_kwargs.messages", "");
  EXPECT_FALSE(chat(R"("add_generation_prompt":false)").conversation.add_generation_prompt);
  EXPECT_BAD(chat(R"("add_generation_prompt":1)"), "add_generation_prompt", "invalid_type");
}

TEST(ChatRequests, MaxTokensHasTwoNames) {
  EXPECT_EQ(chat("").generation.max_tokens, std::nullopt);
  EXPECT_EQ(chat(R"("max_tokens":5)").generation.max_tokens, 5u);
  EXPECT_EQ(chat(R"("max_completion_tokens":6)").generation.max_tokens, 6u);
  EXPECT_EQ(chat(R"("max_completion_tokens":6,"max_tokens":6)").generation.max_tokens, 6u);
  EXPECT_EQ(chat(R"("max_completion_tokens":6,"max_tokens":null)").generation.max_tokens, 6u);
  EXPECT_EQ(chat(R"("max_tokens":-1)").generation.max_tokens, std::nullopt);
  EXPECT_EQ(chat(R"("max_tokens":99999999999)").generation.max_tokens, uint32_t(max_max_tokens));
  EXPECT_BAD(chat(R"("max_completion_tokens":6,"max_tokens":5)"), "max_tokens", "unsupported_parameter", "no effect");
  EXPECT_BAD(chat(R"("max_tokens":0)"), "max_tokens", "integer_below_min_value", "from 1");
  EXPECT_BAD(chat(R"("max_completion_tokens":0)"), "max_completion_tokens", "integer_below_min_value");
}

TEST(ChatRequests, LogProbabilities) {
  const auto logprobs = [](std::string_view fields) { return chat(fields).generation.sampling.logprobs; };
  EXPECT_EQ(logprobs(""), std::nullopt);
  EXPECT_EQ(logprobs(R"("logprobs":false)"), std::nullopt);
  EXPECT_EQ(logprobs(R"("logprobs":true)"), 0u);
  EXPECT_EQ(logprobs(R"("logprobs":true,"top_logprobs":20)"), 20u);
  EXPECT_BAD(logprobs(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", "integer_above_max_value");
  EXPECT_BAD(logprobs(R"("logprobs":true,"top_logprobs":-1)"), "top_logprobs", "integer_below_min_value");
  EXPECT_BAD(logprobs(R"("top_logprobs":1)"), "top_logprobs", "", "logprobs");
  EXPECT_EQ(logprobs(R"("logprobs":false,"top_logprobs":0)"), std::nullopt);
  EXPECT_BAD(logprobs(R"("logprobs":1)"), "logprobs", "invalid_type");
}

TEST(ChatRequests, RefusesFieldsOfCompletions) {
  for (const char* field : {"prompt", "input"})
    EXPECT_BAD(chat(fmt::format(R"("{}":1)", field)), field, "unknown_parameter");
  EXPECT_BAD(chat(R"("echo":true)"), "echo", "unsupported_parameter", "an echo of a chat");
  EXPECT_BAD(chat(R"("best_of":2)"), "best_of", "unsupported_parameter");
  EXPECT_NO_THROW(chat(R"("best_of":1,"echo":false)"));
}

TEST(ChatRequests, RefusesWhatIsNotSupported) {
  for (const auto& one : std::vector<std::pair<const char*, const char*>>{{"modalities", R"(["text","audio"])"},
                                                                          {"modalities", "[]"},
                                                                          {"audio", R"({"voice":"a","format":"wav"})"},
                                                                          {"web_search_options", R"({"a":1})"},
                                                                          {"suffix", R"("x")"},
                                                                          {"use_beam_search", "true"},
                                                                          {"min_tokens", "1"}})
    EXPECT_BAD(chat(fmt::format(R"("{}":{})", one.first, one.second)), one.first, "unsupported_parameter", one.first,
               "heddle does not support", "expected null", "found ");
}

TEST(ChatRequests, IgnoresWhatCannotMatterUnlessTheServerIsStrict) {
  for (const auto& one :
       std::vector<std::pair<const char*, const char*>>{{"prediction", R"({"type":"content","content":"x"})"},
                                                        {"verbosity", R"("high")"},
                                                        {"store", "true"},
                                                        {"metadata", R"({"a":"b"})"},
                                                        {"prompt_cache_retention", R"("24h")"},
                                                        {"service_tier", R"("flex")"},
                                                        {"keep_alive", R"("5m")"},
                                                        {"what_is_this", "7"}}) {
    IgnoredFields ignored;
    RequestRules rules = small_rules();
    rules.ignored = &ignored;
    const std::string field = fmt::format(R"("{}":{})", one.first, one.second);
    read_chat(with_message(field), rules);
    EXPECT_EQ(ignored.names(), std::vector<std::string>{one.first});
    EXPECT_TRUE(api_error_of([&] { chat(field); })) << one.first;
  }
}

TEST(ChatRequests, AcceptsFieldsThatAskForNothing) {
  EXPECT_NO_THROW(chat(R"("tools":[],"tool_choice":"none","parallel_tool_calls":true,"functions":[],
    "function_call":"auto","response_format":{"type":"text"},"json_schema":null,"grammar":"","modalities":["text"],
    "audio":null,"prediction":null,"web_search_options":null,"reasoning_effort":null,"verbosity":"medium",
    "store":false,"metadata":{},"prompt_cache_retention":"in_memory","service_tier":"auto","suffix":"",
    "continue_final_message":false,"prompt_cache_key":"k")"));
}

TEST(ChatRequests, TemplatesAlone) {
  const auto read = [](std::string_view fields) { return read_template(with_message(fields), small_rules()); };
  const ChatRequest request = read(R"("add_generation_prompt":false,"chat_template_kwargs":{"a":1},"tools":[])");
  EXPECT_EQ(request.conversation.messages, R"([{"role":"user","content":"x"}])");
  EXPECT_EQ(request.conversation.variables, R"({"a":1})");
  EXPECT_FALSE(request.conversation.add_generation_prompt);
  EXPECT_BAD(read(R"("temperature":1)"), "temperature", "unknown_parameter");
  EXPECT_BAD(read(R"("tools":[{}])"), "tools[0].type", "missing_required_parameter");
}

const OpenAiHead chat_head{"chatcmpl-1", 1700000000, "weft \"q8\""};
using WrittenChat = Written<ChatWriter>;

TEST(ChatWriter, WritesADocument) {
  WrittenChat written(chat_head, {}, 2);
  written->on_text(1, {"?"});
  written->on_text(0, {"Hello\n"});
  written->on_finish(1, too_long);
  written->on_text(0, {"\"\u00e4\""});
  written->on_finish(0, {Finish::Reason::stop_string, "x"});
  EXPECT_FALSE(written.recorded().ended());
  written->on_end({5, 7, 3}, "");
  EXPECT_EQ(written.whole(), strictly(R"({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "weft \"q8\"",
    "choices": [
      {"index": 0, "message": {"role": "assistant", "content": "Hello\n\"\u00e4\"", "refusal": null},
       "logprobs": null, "finish_reason": "stop"},
      {"index": 1, "message": {"role": "assistant", "content": "?", "refusal": null},
       "logprobs": null, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
              "prompt_tokens_details": {"cached_tokens": 3}}})"));
}

TEST(ChatWriter, HasAPlaceForTheTrace) {
  WrittenChat written(chat_head);
  written->on_finish(0, {Finish::Reason::context});
  written->on_end({}, R"({"queue": 0.5})");
  EXPECT_EQ(written.whole()["trace"], Json({{"queue", 0.5}}));
  EXPECT_EQ(written.whole()["choices"][0]["message"]["content"], "");
  EXPECT_EQ(written.whole()["choices"][0]["finish_reason"], "length");
}

Json chat_chunk(std::string_view rest) {
  Json all = strictly(R"({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000,
                          "model": "weft \"q8\""})");
  all.update(strictly(std::string(rest)));
  return all;
}

TEST(ChatWriter, WritesChunks) {
  WrittenChat written(chat_head, {.stream = true}, 2);
  written->on_text(1, {" the\t"});
  written->on_finish(1, stopped);
  written->on_finish(0, too_long);
  written->on_end({1, 2, 0}, "");
  const std::vector<Json> chunks = written.chunks();
  ASSERT_EQ(chunks.size(), 5);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(chunks[i], chat_chunk(fmt::format(R"({{"choices": [{{"index": {},
      "delta": {{"role": "assistant", "content": "", "refusal": null}}, "logprobs": null, "finish_reason": null}}]}})",
                                                i)));
  EXPECT_EQ(chunks[2], chat_chunk(R"({"choices": [{"index": 1, "delta": {"content": " the\t"}, "logprobs": null,
                                                   "finish_reason": null}]})"));
  EXPECT_EQ(chunks[3], chat_chunk(R"({"choices": [{"index": 1, "delta": {}, "logprobs": null,
                                                   "finish_reason": "stop"}]})"));
  EXPECT_EQ(chunks[4], chat_chunk(R"({"choices": [{"index": 0, "delta": {}, "logprobs": null,
                                                   "finish_reason": "length"}]})"));
}

TEST(ChatWriter, WritesUsageInTheLastChunk) {
  WrittenChat written(chat_head, {.stream = true, .include_usage = true});
  written->on_text(0, {"x"});
  written->on_finish(0, stopped);
  written->on_end({1, 2, 0}, "[1]");
  const std::vector<Json> chunks = written.chunks();
  ASSERT_EQ(chunks.size(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
  EXPECT_EQ(chunks[3], chat_chunk(R"({"choices": [],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3,
              "prompt_tokens_details": {"cached_tokens": 0}}, "trace": [1]})"));
}

TEST(ChatWriter, WritesATraceWithoutUsage) {
  WrittenChat written(chat_head, {.stream = true});
  written->on_finish(0, stopped);
  written->on_end({1, 2, 0}, "[1]");
  EXPECT_EQ(written.chunks().back(), chat_chunk(R"({"choices": [], "trace": [1]})"));
}

TEST(ChatWriter, WritesErrors) {
  WrittenChat early(chat_head, {.stream = true});
  early->on_error(server_fault("it broke"));
  EXPECT_EQ(early.recorded().status(), 500) << "nothing was sent before";
  EXPECT_EQ(early.whole()["error"]["message"], "it broke");
  WrittenChat late(chat_head, {.stream = true});
  late->on_text(0, {"x"});
  late->on_error(server_fault("it broke"));
  EXPECT_TRUE(late.recorded().ended());
  const std::vector<std::string> events = late.recorded().events();
  ASSERT_EQ(events.size(), 3) << "a role, a text, and the error in place of [DONE]";
  EXPECT_EQ(strictly(events[2]), strictly(openai_error(server_fault("it broke"))));
}

TEST(ChatWriter, WritesLogProbabilities) {
  const TextDelta delta{"\u00e4",
                        {{{"\xc3", -0.5}, true, {{"\xc3", -0.5}, {"a", -1.25}}}, {{"\xa4", impossible}, true, {}}}};
  const Json expected = strictly(R"({"content": [
    {"token": "\ufffd", "logprob": -0.5, "bytes": [195], "top_logprobs": [
      {"token": "\ufffd", "logprob": -0.5, "bytes": [195]}, {"token": "a", "logprob": -1.25, "bytes": [97]}]},
    {"token": "\ufffd", "logprob": -9999.0, "bytes": [164], "top_logprobs": []}], "refusal": null})");
  for (const bool stream : {false, true}) {
    WrittenChat written(chat_head, {.stream = stream}, 1, true);
    written->on_text(0, delta);
    written->on_finish(0, stopped);
    written->on_end({}, "");
    const Json answer = stream ? written.chunks()[1] : written.whole();
    EXPECT_EQ(answer["choices"][0]["logprobs"], expected);
  }
  WrittenChat empty(chat_head, {}, 1, true);
  empty->on_finish(0, stopped);
  empty->on_end({}, "");
  EXPECT_EQ(empty.whole()["choices"][0]["logprobs"], strictly(R"({"content": [], "refusal": null})"));
}

TEST(ChatWriter, MakesValidJsonOfAnyBytes) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes;
    for (size_t size = 1 + random() % 20; size > 0; --size)
      bytes += char(random() % 3 ? random() % 256 : random() % 40);
    const std::string text = replace_invalid_utf8(bytes);
    for (const bool stream : {false, true}) {
      WrittenChat written({bytes, -1, bytes}, {.stream = stream}, 1, true);
      written->on_text(0, {bytes, {{{bytes, -1}, true, {{bytes, -1}}}}});
      written->on_finish(0, stopped);
      written->on_end({}, "");
      const Json answer = stream ? written.chunks()[1] : written.whole();
      const Json choice = answer["choices"][0];
      EXPECT_EQ(answer["model"], text);
      EXPECT_EQ(answer["id"], text);
      EXPECT_EQ(choice[stream ? "delta" : "message"]["content"], text);
      EXPECT_EQ(choice["logprobs"]["content"][0]["token"], text);
      EXPECT_EQ(choice["logprobs"]["content"][0]["bytes"].size(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace heddle::server

// Responses to chats by value, whole and as chunks.
#include <gtest/gtest.h>

#include <random>

#include "server/api/chat/chat.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

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

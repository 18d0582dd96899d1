// Responses to completions by value, whole and as chunks.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "server/api/completions/completions.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

const OpenAiHead text_head{"cmpl-1", 7, "m"};
using WrittenText = Written<CompletionWriter>;

TEST(CompletionWriter, WritesADocument) {
  WrittenText written(text_head);
  written->on_text(0, {"a"});
  written->on_finish(0, stopped);
  written->on_end({1, 1, 0}, "{}");
  EXPECT_EQ(written.whole(), strictly(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m",
    "choices": [{"index": 0, "text": "a", "logprobs": null, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2,
              "prompt_tokens_details": {"cached_tokens": 0}}, "trace": {}})"));
}

TEST(CompletionWriter, WritesChunks) {
  WrittenText written(text_head, {.stream = true, .include_usage = true}, 4);
  written->on_text(3, {"a"});
  written->on_finish(3, too_long);
  written->on_end({1, 2, 1}, "{}");
  const std::vector<Json> chunks = written.chunks();
  ASSERT_EQ(chunks.size(), 3);
  EXPECT_EQ(chunks[0], strictly(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m",
    "choices": [{"index": 3, "text": "a", "logprobs": null, "finish_reason": null}], "usage": null})"));
  EXPECT_EQ(chunks[1], strictly(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m",
    "choices": [{"index": 3, "text": "", "logprobs": null, "finish_reason": "length"}], "usage": null})"));
  EXPECT_EQ(chunks[2], strictly(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m", "choices": [],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3,
              "prompt_tokens_details": {"cached_tokens": 1}}, "trace": {}})"));
}

TEST(CompletionWriter, WritesLogProbabilities) {
  const TextDelta delta{"h\u00e4?",
                        {{{"h", 0}, false, {}},                                           // the first token of a prompt
                         {{"\xc3", -0.5}, true, {{"\xc4", -0.25}, {"\xc3", -0.5}}},       // half a character
                         {{"\xa4", -2}, true, {{"x", -0.125}}},                           // not among the most likely
                         {{"?", impossible}, true, {{"?", -1}, {"!", -2}, {"!", -3}}}}};  // two tokens spell "!"
  const Json expected = strictly(R"({
    "tokens": ["h", "bytes:\\xc3", "bytes:\\xa4", "?"],
    "token_logprobs": [null, -0.5, -2, -9999.0],
    "top_logprobs": [null, {"bytes:\\xc4": -0.25, "bytes:\\xc3": -0.5}, {"x": -0.125, "bytes:\\xa4": -2},
                     {"?": -1, "!": -2}],
    "text_offset": [0, 1, 1, 2]})");
  WrittenText whole(text_head, {}, 1, true);
  whole->on_text(0, delta);
  whole->on_finish(0, stopped);
  whole->on_end({}, "");
  EXPECT_EQ(whole.whole()["choices"][0]["logprobs"], expected);
  WrittenText chunks(text_head, {.stream = true}, 1, true);
  chunks->on_text(0, {"0123456\u00e489"});
  chunks->on_text(0, delta);
  chunks->on_end({}, "");
  const Json second = chunks.chunks()[1]["choices"][0]["logprobs"];
  EXPECT_EQ(second["text_offset"], Json({10, 11, 11, 12}));
  EXPECT_EQ(second["tokens"], expected["tokens"]);
}

TEST(CompletionWriter, OffsetsAreThoseOfTheText) {
  // `before`: characters in the chunks before
  const auto offsets = [](std::string text, std::vector<TokenLogprobs> tokens, size_t before) {
    WrittenText written(text_head, {.stream = true}, 1, true);
    written->on_text(0, {std::string(before, 'x')});
    written->on_text(0, {std::move(text), std::move(tokens)});
    written->on_end({}, "");
    return written.chunks()[1]["choices"][0]["logprobs"]["text_offset"];
  };
  const TokenLogprobs begin{{"<s>", 0}, false, {}, false};
  EXPECT_EQ(offsets("ab", {begin, {{"a", -1}}, {{"b", -1}}}, 0), Json({0, 0, 1}));
  EXPECT_EQ(offsets("a b", {begin, {{" a", -1}}, {{" b", -1}}}, 0), Json({0, 0, 1})) << "the first space is not shown";
  EXPECT_EQ(offsets(" a b", {begin, {{" a", -1}}, {{" b", -1}}}, 0), Json({0, 0, 2}));
  EXPECT_EQ(offsets(" a b", {{{" a", -1}}, {{" b", -1}}}, 5), Json({5, 7}));
}

// A harness asks whether the token picked is the most likely one by comparing the two numbers.
TEST(CompletionWriter, EqualLogProbabilitiesAreEqualNumbers) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const float logprob = -std::ldexp(float(random() >> 8), -int(random() % 40));
    WrittenText written(text_head, {}, 1, true);
    written->on_text(0, {"x", {{{"x", logprob}, true, {{"x", logprob}}}}});
    written->on_end({}, "");
    const Json logprobs = written.whole()["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]["x"]);
    EXPECT_EQ(logprobs["token_logprobs"][0].get<float>(), logprob);
  }
}

TEST(CompletionWriter, MakesValidJsonOfAnyBytes) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes;
    for (size_t size = 1 + random() % 20; size > 0; --size)
      bytes += char(random() % 3 ? random() % 256 : random() % 40);
    for (const bool stream : {false, true}) {
      WrittenText written({bytes, -1, bytes}, {.stream = stream}, 1, true);
      written->on_text(0, {bytes, {{{bytes, -1}, true, {{bytes, -1}}}}});
      written->on_end({}, "");
      const Json answer = stream ? written.chunks()[0] : written.whole();
      EXPECT_EQ(answer["choices"][0]["text"], replace_invalid_utf8(bytes));
      EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"].size(), 1);
    }
  }
}

}  // namespace
}  // namespace heddle::server

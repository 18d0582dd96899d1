// The body of a completion, field by field; then its responses by value, whole and as chunks.
#include "server/api/completions/completions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/server/api/request_fixture.h"
#include "tests/server/api/writer_fixture.h"

namespace heddle::server {
namespace {

using Ids = std::vector<text::TokenId>;

CompletionRequest prompt(std::string_view json) {
  return read_completion(fmt::format(R"({{"prompt":{}}})", json), small_rules());
}

TEST(CompletionRequests, ABodyIsAJsonObject) {
  const auto read = [](std::string_view body) { return read_completion(body, small_rules()); };
  EXPECT_BAD(read(""), "", "", "no valid JSON");
  EXPECT_BAD(read("{\"prompt\": \"x\""), "", "", "the body of the request", "byte 15");
  EXPECT_BAD(read("{\"prompt\": x}"), "", "", "byte 12");
  EXPECT_BAD(read("{} {}"), "", "", "no valid JSON");
  EXPECT_BAD(read("[]"), "", "", "expected an object, found []");
  EXPECT_BAD(read("7"), "", "", "expected an object, found 7");
  EXPECT_BAD(read(R"({"prompt":"x","prompt":"y"})"), "", "", "\"prompt\" is there twice");
  EXPECT_BAD(read("{\"prompt\": \"\xff\"}"), "", "", "no valid JSON");
  EXPECT_BAD(read(R"({"prompt":"\ud800"})"), "", "", "no valid JSON");
  EXPECT_BAD(read(R"({"prompt":"x","temperature":NaN})"), "", "", "no valid JSON");
  EXPECT_BAD(read(R"({"prompt":"x","temperature":1e999})"), "", "", "no valid JSON");
  EXPECT_BAD(read(std::string(100'000, '[')), "", "", "nested deeper");
}

TEST(CompletionRequests, UnknownFieldsAreNamed) {
  EXPECT_BAD(complete(R"("temprature":1)"), "temprature", "unknown_parameter", "\"temprature\"", "no such field");
  EXPECT_BAD(complete(R"("":1)"), "", "unknown_parameter", "no such field");
  EXPECT_BAD(complete(R"("max_completion_tokens":1)"), "max_completion_tokens", "unknown_parameter");
  EXPECT_BAD(complete(R"("top_logprobs":1)"), "top_logprobs", "unknown_parameter");
  EXPECT_BAD(complete(R"("x\n":1)"), "x\n", "unknown_parameter", "\"x\\n\"");
  EXPECT_NO_THROW(complete(R"("x\n":null)"));  // as if it were absent
  const auto error = api_error_of([] { complete("\"" + std::string(100'000, 'x') + "\":1"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, std::string(80, 'x'));
  EXPECT_LT(std::string(error->what()).size(), 150u);
}

TEST(CompletionRequests, PromptsComeInFourShapes) {
  EXPECT_EQ(prompt(R"("once upon")").prompts, std::vector<Prompt>{"once upon"});
  EXPECT_EQ(prompt(R"("")").prompts, std::vector<Prompt>{""});
  EXPECT_EQ(prompt(R"(["a", "", "b"])").prompts, (std::vector<Prompt>{"a", "", "b"}));
  EXPECT_EQ(prompt("[1, 267, 3.0]").prompts, (std::vector<Prompt>{Ids{1, 267, 3}}));
  EXPECT_EQ(prompt("[[1], [2, 3]]").prompts, (std::vector<Prompt>{Ids{1}, Ids{2, 3}}));
  EXPECT_EQ(prompt(R"(["a", [2, 3]])").prompts, (std::vector<Prompt>{"a", Ids{2, 3}}));
  EXPECT_EQ(prompt(R"("\u00e4\ud83d\ude00\u0000")").prompts,
            (std::vector<Prompt>{std::string("\u00e4\U0001f600\0", 7)}));
}

TEST(CompletionRequests, RefusesBadPrompts) {
  EXPECT_BAD(read_completion("{}", small_rules()), "prompt", "missing_required_parameter", "prompt: is missing");
  EXPECT_BAD(prompt("null"), "prompt", "missing_required_parameter");
  EXPECT_BAD(prompt("7"), "prompt", "invalid_type", "prompt: expected a string or a list, found 7");
  EXPECT_BAD(prompt("{}"), "prompt", "invalid_type");
  EXPECT_BAD(prompt("[]"), "prompt", "empty_array", "found []");
  EXPECT_BAD(prompt("[[]]"), "prompt[0]", "empty_array");
  EXPECT_BAD(prompt("[[1], []]"), "prompt[1]", "empty_array");
  EXPECT_BAD(prompt(R"(["a", 7])"), "prompt[1]", "invalid_type", "found 7");
  EXPECT_BAD(prompt(R"([null])"), "prompt[0]", "invalid_type", "found null");
  EXPECT_BAD(prompt(R"([7, "a"])"), "prompt[1]", "invalid_type", "expected a whole number", "found \"a\"");
  EXPECT_BAD(prompt("[[1, 268]]"), "prompt[0][1]", "integer_above_max_value", "from 0 to 267", "found 268");
  EXPECT_BAD(prompt("[1, -1]"), "prompt[1]", "integer_below_min_value", "found -1");
  EXPECT_BAD(prompt("[1.5]"), "prompt[0]", "invalid_type", "found 1.5");
  EXPECT_BAD(prompt("[18446744073709551616]"), "prompt[0]", "integer_above_max_value");
  EXPECT_BAD(prompt("[[[1]]]"), "prompt[0][0]", "invalid_type");
  std::string many = "[";
  for (int i = 0; i < 2048; ++i) many += "\"x\",";
  EXPECT_EQ(prompt(many.substr(0, many.size() - 1) + "]").prompts.size(), 2048u);
  EXPECT_BAD(prompt(many + "\"x\"]"), "prompt", "array_above_max_length", "at most 2048", "2049 elements");
}

TEST(CompletionRequests, IdsAreThoseOfModelAndTokenizer) {
  const RequestRules small{small_rules().tokenizer, 100}, large{small_rules().tokenizer, 1000};
  EXPECT_NO_THROW(read_completion(R"({"prompt":[99]})", small));
  EXPECT_BAD(read_completion(R"({"prompt":[100]})", small), "prompt[0]", "integer_above_max_value", "0 to 99");
  EXPECT_BAD(read_completion(R"({"prompt":[268]})", large), "prompt[0]", "integer_above_max_value", "0 to 267");
}

TEST(CompletionRequests, Defaults) {
  const CompletionRequest request = complete("");
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.generation.echo);
  EXPECT_EQ(request.generation.best_of, 1u);
  EXPECT_EQ(request.generation.max_tokens, 16u);
  EXPECT_EQ(request.generation.sampling.logprobs, std::nullopt);
}

TEST(CompletionRequests, Fields) {
  EXPECT_EQ(complete(R"("model":"weft")").model, "weft");
  EXPECT_BAD(complete(R"("model":7)"), "model", "invalid_type", "model: expected a string, found 7");
  EXPECT_TRUE(complete(R"("echo":true)").generation.echo);
  EXPECT_BAD(complete(R"("echo":"yes")"), "echo", "invalid_type", "expected true or false");
  EXPECT_EQ(complete(R"("max_tokens":0,"echo":true)").generation.max_tokens, 0u);
  EXPECT_EQ(complete(R"("max_tokens":7.0)").generation.max_tokens, 7u);
  EXPECT_EQ(complete(R"("max_tokens":4294967294)").generation.max_tokens, 4294967294u);
  EXPECT_EQ(complete(R"("max_tokens":null)").generation.max_tokens, 16u);
  EXPECT_EQ(complete(R"("max_tokens":4294967295)").generation.max_tokens, 4294967294u) << "beyond any context";
  EXPECT_EQ(complete(R"("max_tokens":1e300)").generation.max_tokens, 4294967294u);
  EXPECT_EQ(complete(R"("max_tokens":-1)").generation.max_tokens, std::nullopt);
  EXPECT_BAD(complete(R"("max_tokens":-2)"), "max_tokens", "integer_below_min_value", "from 0", "found -2");
  EXPECT_BAD(complete(R"("max_tokens":-1e300)"), "max_tokens", "integer_below_min_value");
  EXPECT_BAD(complete(R"("max_tokens":2.5)"), "max_tokens", "invalid_type", "found 2.5");
  EXPECT_BAD(complete(R"("max_tokens":"9")"), "max_tokens", "invalid_type", "found \"9\"");
  EXPECT_EQ(complete(R"("logprobs":0)").generation.sampling.logprobs, 0u);
  EXPECT_EQ(complete(R"("logprobs":20)").generation.sampling.logprobs, 20u);
  EXPECT_BAD(complete(R"("logprobs":21)"), "logprobs", "integer_above_max_value", "from 0 to 20");
  EXPECT_BAD(complete(R"("logprobs":true)"), "logprobs", "invalid_type");
  EXPECT_EQ(
      read_completion(R"({"prompt":"x","logprobs":20})", {small_rules().tokenizer, 7}).generation.sampling.logprobs,
      7u);
  EXPECT_TRUE(complete(R"("logprobs":0,"logprobs_after":true)").generation.sampling.logprobs_after);
  EXPECT_FALSE(complete(R"("logprobs_after":false)").generation.sampling.logprobs_after);
  EXPECT_BAD(complete(R"("logprobs_after":true)"), "logprobs_after", "", "together with logprobs");
  EXPECT_BAD(complete(R"("suffix":"end")"), "suffix", "unsupported_parameter", "heddle does not support");
  EXPECT_NO_THROW(complete(R"("suffix":"")"));
}

TEST(CompletionRequests, BestOfIsAtLeastN) {
  EXPECT_EQ(complete(R"("n":3)").generation.best_of, 3u);
  EXPECT_EQ(complete(R"("n":3,"best_of":5)").generation.best_of, 5u);
  EXPECT_EQ(complete(R"("best_of":128)").generation.best_of, 128u);
  EXPECT_EQ(complete(R"("n":2,"best_of":2,"stream":true)").generation.best_of, 2u);
  EXPECT_BAD(complete(R"("n":3,"best_of":2)"), "best_of", "integer_below_min_value", "from 3 to 128");
  EXPECT_BAD(complete(R"("best_of":129)"), "best_of", "integer_above_max_value");
  EXPECT_BAD(complete(R"("best_of":2,"stream":true)"), "best_of", "invalid_value", "stream");
}

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

// Answers by value, in the shape of OpenAI's API, as another reader of JSON sees them.
#include "server/api/replies.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "base/utf8.h"
#include "server/api/api_error.h"
#include "server/api/json_text.h"

namespace heddle::server {
namespace {

const ReplyHead head{"chatcmpl-1", 1700000000, "weft \"q8\""};

// Strictly: UTF-8, no key twice.
Json read(const std::string& text) {
  EXPECT_TRUE(is_utf8(text));
  return parse_json(text, "reply");
}

TEST(Replies, Chat) {
  const std::vector<Choice> choices{{0, "Hello\n\"\u00e4\"", "stop"}, {1, "", "length"}};
  EXPECT_EQ(read(chat_completion(head, choices, {5, 7, 3}, "")), read(R"({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "weft \"q8\"",
    "choices": [
      {"index": 0, "message": {"role": "assistant", "content": "Hello\n\"\u00e4\"", "refusal": null},
       "logprobs": null, "finish_reason": "stop"},
      {"index": 1, "message": {"role": "assistant", "content": "", "refusal": null},
       "logprobs": null, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
              "prompt_tokens_details": {"cached_tokens": 3}}})"));
  EXPECT_EQ(read(chat_completion(head, choices, {}, R"({"queue": 0.5})"))["trace"], Json({{"queue", 0.5}}));
  EXPECT_EQ(read(chat_completion(head, {}, {}, ""))["choices"], Json::array());
}

TEST(Replies, ChatInPieces) {
  const Json start = read(R"({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000,
                              "model": "weft \"q8\""})");
  const auto expected = [&](std::string_view rest) {
    Json all = start;
    all.update(read(std::string(rest)));
    return all;
  };
  EXPECT_EQ(read(chat_role_chunk(head, 2, false)), expected(R"({"choices": [{"index": 2,
    "delta": {"role": "assistant", "content": "", "refusal": null}, "logprobs": null, "finish_reason": null}]})"));
  EXPECT_EQ(read(chat_role_chunk(head, 0, true)), expected(R"({"choices": [{"index": 0,
    "delta": {"role": "assistant", "content": "", "refusal": null}, "logprobs": null, "finish_reason": null}],
    "usage": null})"));
  EXPECT_EQ(read(chat_chunk(head, {1, " the\t", ""}, false)), expected(R"({"choices": [{"index": 1,
    "delta": {"content": " the\t"}, "logprobs": null, "finish_reason": null}]})"));
  EXPECT_EQ(read(chat_chunk(head, {1, "", ""}, true)), expected(R"({"choices": [{"index": 1,
    "delta": {"content": ""}, "logprobs": null, "finish_reason": null}], "usage": null})"));
  EXPECT_EQ(read(chat_chunk(head, {0, "", "stop"}, false)), expected(R"({"choices": [{"index": 0,
    "delta": {}, "logprobs": null, "finish_reason": "stop"}]})"));
  EXPECT_EQ(read(chat_chunk(head, {0, "x", "length"}, false)), expected(R"({"choices": [{"index": 0,
    "delta": {"content": "x"}, "logprobs": null, "finish_reason": "length"}]})"));
  const Usage usage{1, 2, 0};
  EXPECT_EQ(read(chat_last_chunk(head, &usage, "")), expected(R"({"choices": [],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3,
              "prompt_tokens_details": {"cached_tokens": 0}}})"));
  EXPECT_EQ(read(chat_last_chunk(head, nullptr, "[1]")), expected(R"({"choices": [], "trace": [1]})"));
}

TEST(Replies, Completions) {
  const std::vector<Choice> choices{{0, "a", "stop"}};
  EXPECT_EQ(read(completion({"cmpl-1", 7, "m"}, choices, {1, 1, 0}, "{}")), read(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m",
    "choices": [{"index": 0, "text": "a", "logprobs": null, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2,
              "prompt_tokens_details": {"cached_tokens": 0}}, "trace": {}})"));
  EXPECT_EQ(read(completion_chunk({"cmpl-1", 7, "m"}, {3, "a", ""}, 0, true)), read(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m",
    "choices": [{"index": 3, "text": "a", "logprobs": null, "finish_reason": null}], "usage": null})"));
  const Usage usage{1, 2, 1};
  EXPECT_EQ(read(completion_last_chunk({"cmpl-1", 7, "m"}, &usage, "{}")), read(R"({
    "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m", "choices": [],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3,
              "prompt_tokens_details": {"cached_tokens": 1}}, "trace": {}})"));
}

const double impossible = -std::numeric_limits<double>::infinity();

TEST(Replies, LogProbabilitiesOfChats) {
  const Choice choice{0, "\u00e4", "stop",
                      std::vector<TokenReport>{{{"\xc3", -0.5}, true, {{"\xc3", -0.5}, {"a", -1.25}}},
                                               {{"\xa4", impossible}, true, {}}}};
  const Json expected = read(R"({"content": [
    {"token": "\ufffd", "logprob": -0.5, "bytes": [195], "top_logprobs": [
      {"token": "\ufffd", "logprob": -0.5, "bytes": [195]}, {"token": "a", "logprob": -1.25, "bytes": [97]}]},
    {"token": "\ufffd", "logprob": -9999.0, "bytes": [164], "top_logprobs": []}], "refusal": null})");
  EXPECT_EQ(read(chat_chunk(head, choice, false))["choices"][0]["logprobs"], expected);
  EXPECT_EQ(read(chat_completion(head, std::span(&choice, 1), {}, ""))["choices"][0]["logprobs"], expected);
  const Choice none{0, "", "stop", std::vector<TokenReport>{}};
  EXPECT_EQ(read(chat_chunk(head, none, false))["choices"][0]["logprobs"], read(R"({"content": [], "refusal": null})"));
}

TEST(Replies, LogProbabilitiesOfCompletions) {
  const Choice choice{
      0, "h\u00e4?", "length",
      std::vector<TokenReport>{{{"h", 0}, false, {}},                                      // the first of a prompt
                               {{"\xc3", -0.5}, true, {{"\xc4", -0.25}, {"\xc3", -0.5}}},  // half a character
                               {{"\xa4", -2}, true, {{"x", -0.125}}},                      // not among the most likely
                               {{"?", impossible}, true, {{"?", -1}, {"!", -2}, {"!", -3}}}}};  // "!" has two spellings
  const Json expected = read(R"({
    "tokens": ["h", "bytes:\\xc3", "bytes:\\xa4", "?"],
    "token_logprobs": [null, -0.5, -2, -9999.0],
    "top_logprobs": [null, {"bytes:\\xc4": -0.25, "bytes:\\xc3": -0.5}, {"x": -0.125, "bytes:\\xa4": -2},
                     {"?": -1, "!": -2}],
    "text_offset": [0, 1, 1, 2]})");
  EXPECT_EQ(read(completion(head, std::span(&choice, 1), {}, ""))["choices"][0]["logprobs"], expected);
  const Json piece = read(completion_chunk(head, choice, 10, false))["choices"][0]["logprobs"];
  EXPECT_EQ(piece["text_offset"], Json({10, 11, 11, 12}));
  EXPECT_EQ(piece["tokens"], expected["tokens"]);
}

TEST(Replies, OffsetsAreThoseOfTheText) {
  const auto offsets = [](std::string text, std::vector<TokenReport> reports, size_t before) {
    const Choice choice{0, std::move(text), "", std::move(reports)};
    return read(completion_chunk(head, choice, before, false))["choices"][0]["logprobs"]["text_offset"];
  };
  const TokenReport begin{{"<s>", 0}, false, {}, false};
  EXPECT_EQ(offsets("ab", {begin, {{"a", -1}}, {{"b", -1}}}, 0), Json({0, 0, 1}));
  EXPECT_EQ(offsets("a b", {begin, {{" a", -1}}, {{" b", -1}}}, 0), Json({0, 0, 1}));  // the first space is not written
  EXPECT_EQ(offsets(" a b", {begin, {{" a", -1}}, {{" b", -1}}}, 0), Json({0, 0, 2}));
  EXPECT_EQ(offsets(" a b", {{{" a", -1}}, {{" b", -1}}}, 5), Json({5, 7}));
  EXPECT_EQ(offsets("", {}, 5), Json::array());
}

// A harness asks whether the token taken is the most likely one by comparing the two numbers.
TEST(Replies, TheSameChanceIsTheSameNumber) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const float chance = -std::ldexp(float(random() >> 8), -int(random() % 40));
    const Choice choice{0, "x", "", std::vector<TokenReport>{{{"x", chance}, true, {{"x", chance}}}}};
    const Json logprobs = read(completion_chunk(head, choice, 0, false))["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]["x"]);
    EXPECT_EQ(logprobs["token_logprobs"][0].get<float>(), chance);
  }
}

TEST(Replies, AnyBytesMakeValidJson) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (size_t size = random() % 20; size > 0; --size) bytes += char(random() % 3 ? random() % 256 : random() % 40);
    const Choice choice{0, bytes, bytes, std::vector<TokenReport>{{{bytes, -1}, true, {{bytes, -1}}}}};
    const ReplyHead any{bytes, -1, bytes};
    const std::string text = replace_invalid_utf8(bytes);
    EXPECT_EQ(read(chat_completion(any, std::span(&choice, 1), {}, ""))["choices"][0]["message"]["content"], text);
    EXPECT_EQ(read(completion(any, std::span(&choice, 1), {}, ""))["choices"][0]["text"], text);
    const Json chunk = read(chat_chunk(any, choice, true));
    EXPECT_EQ(chunk["model"], text);
    EXPECT_EQ(chunk["choices"][0]["logprobs"]["content"][0]["token"], text);
    EXPECT_EQ(chunk["choices"][0]["logprobs"]["content"][0]["bytes"].size(), bytes.size());
    EXPECT_EQ(read(completion_chunk(any, choice, 0, false))["id"], text);
    EXPECT_EQ(read(error_json(ApiError(400, bytes, bytes, bytes, "{}", bytes + "x")))["error"]["type"], text);
  }
}

TEST(Replies, Embeddings) {
  const std::vector<std::vector<float>> vectors{{1, -0.5f, 1e-8f}, {0.1f, -0.f, 3.4028235e38f}};
  EXPECT_EQ(embeddings("m", vectors, false, 9),
            R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,-0.5,1e-08]},)"
            R"({"object":"embedding","index":1,"embedding":[0.1,-0,3.4028235e+38]}],)"
            R"("model":"m","usage":{"prompt_tokens":9,"total_tokens":9}})");
  const Json coded = read(embeddings("m", vectors, true, 9));
  EXPECT_EQ(coded["data"][0]["embedding"], "AACAPwAAAL93zCsy");
  EXPECT_EQ(read(embeddings("m", {}, true, 0))["data"], Json::array());
  const std::vector<std::vector<float>> empty{{}};
  EXPECT_EQ(read(embeddings("m", empty, false, 0))["data"][0]["embedding"], Json::array());
  EXPECT_EQ(read(embeddings("m", empty, true, 0))["data"][0]["embedding"], "");
}

TEST(Replies, EveryFloatReadsBack) {
  std::mt19937 random(3);
  std::vector<std::vector<float>> vectors(1);
  while (vectors[0].size() < 10'000)
    if (const float value = std::bit_cast<float>(uint32_t(random())); std::isfinite(value)) vectors[0].push_back(value);
  const Json back = read(embeddings("m", vectors, false, 0))["data"][0]["embedding"];
  for (size_t i = 0; i < vectors[0].size(); ++i) EXPECT_EQ(float(back[i].get<double>()), vectors[0][i]);
  const std::vector<std::vector<float>> broken{{std::nanf(""), float(impossible)}};
  EXPECT_EQ(read(embeddings("m", broken, false, 0))["data"][0]["embedding"], Json({nullptr, nullptr}));
}

TEST(Replies, Base64) {
  for (const auto& [bytes, expected] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xfb\xff\xfe", "+//+"}})
    EXPECT_EQ(base64(bytes), expected);
}

TEST(Replies, Errors) {
  ApiError error(429, "rate_limit_error", "queue_full", "", "{} wait", 7);
  EXPECT_EQ(error_json(error),
            R"({"error":{"message":"7 wait","type":"rate_limit_error","param":null,"code":"queue_full"}})");
  EXPECT_TRUE(error_response(error).headers.empty());
  error.retry_after = 3;
  const HttpResponse response = error_response(error);
  EXPECT_EQ(response.status, 429u);
  EXPECT_EQ(response.type, "application/json");
  EXPECT_EQ(response.body, error_json(error));
  ASSERT_EQ(response.headers.size(), 1u);
  EXPECT_EQ(response.headers[0].name, "Retry-After");
  EXPECT_EQ(response.headers[0].value, "3");
  EXPECT_EQ(
      error_json(bad_field("stop[1]", "stop[1]: expected a text")),
      R"({"error":{"message":"stop[1]: expected a text","type":"invalid_request_error","param":"stop[1]","code":null}})");
  const HttpResponse unknown = error_response({401, "authentication_error", "invalid_api_key", "", "who"});
  ASSERT_EQ(unknown.headers.size(), 1u);
  EXPECT_EQ(unknown.headers[0].name, "WWW-Authenticate");
  EXPECT_EQ(unknown.headers[0].value, "Bearer");
}

}  // namespace
}  // namespace heddle::server

// Errors as clients get them.
#include "server/api/api_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "base/utf8.h"
#include "engine/metrics.h"

namespace heddle::server {
namespace {

TEST(ApiErrors, HaveTheFormOfOpenAi) {
  ApiError error(429, "queue_full", "", "{} wait", 7);
  EXPECT_EQ(openai_error(error),
            R"({"error":{"message":"7 wait","type":"rate_limit_error","param":null,"code":"queue_full"}})");
  EXPECT_TRUE(error_response(error).headers.empty());
  error.retry_after = 3;
  const HttpResponse response = error_response(error);
  EXPECT_EQ(response.status, 429u);
  EXPECT_EQ(response.type, "application/json");
  EXPECT_EQ(response.body, openai_error(error));
  ASSERT_EQ(response.headers.size(), 1u);
  EXPECT_EQ(response.headers[0].name, "Retry-After");
  EXPECT_EQ(response.headers[0].value, "3");
  EXPECT_EQ(
      openai_error(bad_field("stop[1]", "stop[1]: expected a text")),
      R"({"error":{"message":"stop[1]: expected a text","type":"invalid_request_error","param":"stop[1]","code":null}})");
  const HttpResponse unknown = error_response({401, "invalid_api_key", "", "no"});
  ASSERT_EQ(unknown.headers.size(), 1u);
  EXPECT_EQ(unknown.headers[0].name, "WWW-Authenticate");
  EXPECT_EQ(unknown.headers[0].value, "Bearer");
}

TEST(ApiErrors, AreValidJsonWhateverTheyQuote) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes;
    for (size_t size = random() % 20; size > 0; --size) bytes += char(random() % 3 ? random() % 256 : random() % 40);
    const Json error = parse_json(openai_error({400, bytes + "x", bytes + "x", "{}", bytes + "x"}), "error")["error"];
    const std::string expected = replace_invalid_utf8(bytes + "x");
    EXPECT_EQ(error["message"], replace_invalid_utf8((bytes + "x").c_str())) << "a message ends at a NUL";
    EXPECT_EQ(error["code"], expected);
    EXPECT_EQ(error["param"], expected);
  }
}

TEST(ApiErrors, NameBothNumbersOfAPromptThatIsTooLong) {
  const ApiError prompt = context_exceeded("messages", 900, 512);
  EXPECT_STREQ(prompt.what(),
               "This model's maximum context length is 512 tokens. However, the prompt has 900 tokens: please shorten "
               "it.");
  EXPECT_EQ(prompt.status, 400);
  EXPECT_EQ(prompt.code, "context_length_exceeded");
  EXPECT_EQ(prompt.param, "messages");
}

TEST(ApiErrors, EstimateWhenToTryAgain) {
  engine::Metrics metrics;
  EXPECT_EQ(retry_after(metrics), 1) << "nothing is known";
  metrics.waiting = 100;
  metrics.running = 10;
  metrics.generated = 1000;
  metrics.ended(engine::FinishReason::stop) = 10;  // 100 tokens each
  for (int i = 0; i < 10; ++i) {
    metrics.queue_seconds.add(1);
    metrics.first_token_seconds.add(1.5);
    metrics.between_tokens_seconds.add(0.02);
  }
  EXPECT_EQ(retry_after(metrics), 25) << "a completion takes 0.5 + 100 * 0.02 s, 10 at a time, 100 wait";
  metrics.waiting = 1'000'000;
  EXPECT_EQ(retry_after(metrics), 600);
}

}  // namespace
}  // namespace heddle::server

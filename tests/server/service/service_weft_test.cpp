// Responses of weft, compared with what it generates without engine and service.
#include <gtest/gtest.h>

#include "tests/server/service/recorded_response.h"
#include "tests/server/service/weft_service.h"

namespace heddle::server {
namespace {

TEST(ServiceWeft, GeneratesWhatTheModelGeneratesAlone) {
  test::WeftService fixture;
  const text::Tokenizer& tokenizer = fixture.tokenizer;
  // as weft's chat template writes it
  const std::string prompt =
      std::string(tokenizer.text(*tokenizer.bos())) + "<|user|>tell me a story about a dog<|end|><|assistant|>";
  engine::Request request{.prompt = tokenizer.encode(prompt, {.add_special = false}), .max_tokens = 40};
  request.sampling.temperature = 0;
  for (const text::TokenId id : tokenizer.end_tokens()) request.stops.push_back({id});
  const test::Answer alone = test::answers_alone(fixture.world, request)[0];
  std::vector<uint32_t> shown = alone.tokens;
  if (alone.finish_reason == engine::FinishReason::stop) shown.pop_back();

  test::Recorded recorded;
  fixture.service->handle(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .body =
           R"({"messages":[{"role":"user","content":"tell me a story about a dog"}],"temperature":0,"max_tokens":40})"},
      recorded.responder());
  ASSERT_TRUE(recorded.wait_for_end());
  const Json answer = recorded.json();
  EXPECT_EQ(answer.at("choices")[0].at("message").at("content"), tokenizer.decode(shown));
  EXPECT_GT(shown.size(), 5);
  EXPECT_EQ(answer.at("choices")[0].at("finish_reason"),
            alone.finish_reason == engine::FinishReason::stop ? "stop" : "length");
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), request.prompt.size());
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), alone.tokens.size());
}

}  // namespace
}  // namespace heddle::server

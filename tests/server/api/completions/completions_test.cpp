// The body of a completion, field by field.
#include "server/api/completions/completions.h"

#include "tests/server/api/request_fixture.h"

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
  EXPECT_BAD(complete(R"("x\n":null)"), "x\n", "unknown_parameter", "\"x\\n\"");  // null does not make it known
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
  EXPECT_BAD(complete(R"("max_tokens":4294967295)"), "max_tokens", "integer_above_max_value", "4294967294");
  EXPECT_BAD(complete(R"("max_tokens":-1)"), "max_tokens", "integer_below_min_value", "from 0", "found -1");
  EXPECT_BAD(complete(R"("max_tokens":1e300)"), "max_tokens", "integer_above_max_value");
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

}  // namespace
}  // namespace heddle::server

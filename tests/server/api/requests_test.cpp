// Completions, embeddings, and the tokenizer's requests: every field by value.
#include "server/api/requests.h"

#include "tests/server/api/small_rules.h"

namespace heddle::server {
namespace {

using Ids = std::vector<text::TokenId>;

CompletionRequest prompt(std::string_view json) {
  return completion_request(fmt::format(R"({{"prompt":{}}})", json), small_rules());
}

TEST(Requests, ABodyIsAJsonObject) {
  const auto read = [](std::string_view body) { return completion_request(body, small_rules()); };
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

TEST(Requests, UnknownFieldsAreNamed) {
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

TEST(Requests, PromptsComeInFourShapes) {
  EXPECT_EQ(prompt(R"("once upon")").prompts, std::vector<Prompt>{"once upon"});
  EXPECT_EQ(prompt(R"("")").prompts, std::vector<Prompt>{""});
  EXPECT_EQ(prompt(R"(["a", "", "b"])").prompts, (std::vector<Prompt>{"a", "", "b"}));
  EXPECT_EQ(prompt("[1, 267, 3.0]").prompts, (std::vector<Prompt>{Ids{1, 267, 3}}));
  EXPECT_EQ(prompt("[[1], [2, 3]]").prompts, (std::vector<Prompt>{Ids{1}, Ids{2, 3}}));
  EXPECT_EQ(prompt(R"(["a", [2, 3]])").prompts, (std::vector<Prompt>{"a", Ids{2, 3}}));
  EXPECT_EQ(prompt(R"("\u00e4\ud83d\ude00\u0000")").prompts,
            (std::vector<Prompt>{std::string("\u00e4\U0001f600\0", 7)}));
}

TEST(Requests, PromptsThatAreNone) {
  EXPECT_BAD(completion_request("{}", small_rules()), "prompt", "missing_required_parameter", "prompt: is missing");
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

TEST(Requests, IdsAreThoseOfModelAndTokenizer) {
  const RequestRules small{small_rules().tokenizer, 100}, large{small_rules().tokenizer, 1000};
  EXPECT_NO_THROW(completion_request(R"({"prompt":[99]})", small));
  EXPECT_BAD(completion_request(R"({"prompt":[100]})", small), "prompt[0]", "integer_above_max_value", "0 to 99");
  EXPECT_BAD(completion_request(R"({"prompt":[268]})", large), "prompt[0]", "integer_above_max_value", "0 to 267");
}

TEST(Requests, CompletionDefaults) {
  const CompletionRequest request = complete("");
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.echo);
  EXPECT_EQ(request.best_of, 1u);
  EXPECT_EQ(request.generation.max_tokens, 16u);
  EXPECT_EQ(request.generation.sampling.logprobs, std::nullopt);
}

TEST(Requests, CompletionFields) {
  EXPECT_EQ(complete(R"("model":"weft")").model, "weft");
  EXPECT_BAD(complete(R"("model":7)"), "model", "invalid_type", "model: expected a string, found 7");
  EXPECT_TRUE(complete(R"("echo":true)").echo);
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
      completion_request(R"({"prompt":"x","logprobs":20})", {small_rules().tokenizer, 7}).generation.sampling.logprobs,
      7u);
  EXPECT_TRUE(complete(R"("logprobs":0,"logprobs_after":true)").generation.sampling.logprobs_after);
  EXPECT_FALSE(complete(R"("logprobs_after":false)").generation.sampling.logprobs_after);
  EXPECT_BAD(complete(R"("logprobs_after":true)"), "logprobs_after", "", "together with logprobs");
  EXPECT_BAD(complete(R"("suffix":"end")"), "suffix", "unsupported_parameter", "heddle does not do");
  EXPECT_NO_THROW(complete(R"("suffix":"")"));
}

TEST(Requests, BestOfIsAtLeastN) {
  EXPECT_EQ(complete(R"("n":3)").best_of, 3u);
  EXPECT_EQ(complete(R"("n":3,"best_of":5)").best_of, 5u);
  EXPECT_EQ(complete(R"("best_of":128)").best_of, 128u);
  EXPECT_EQ(complete(R"("n":2,"best_of":2,"stream":true)").best_of, 2u);
  EXPECT_BAD(complete(R"("n":3,"best_of":2)"), "best_of", "integer_below_min_value", "from 3 to 128");
  EXPECT_BAD(complete(R"("best_of":129)"), "best_of", "integer_above_max_value");
  EXPECT_BAD(complete(R"("best_of":2,"stream":true)"), "best_of", "invalid_value", "stream");
}

EmbeddingRequest embed(std::string_view fields) {
  return embedding_request(fmt::format("{{{}}}", fields), small_rules());
}

TEST(Requests, Embeddings) {
  const EmbeddingRequest request = embed(R"("input":"text")");
  EXPECT_EQ(request.inputs, std::vector<Prompt>{"text"});
  EXPECT_EQ(request.model, "");
  EXPECT_FALSE(request.base64);
  EXPECT_EQ(request.dimensions, std::nullopt);
  EXPECT_EQ(request.user, "");
  const EmbeddingRequest full =
      embed(R"("input":[[1],[2]],"model":"m","encoding_format":"base64","dimensions":64,"user":"u")");
  EXPECT_EQ(full.inputs, (std::vector<Prompt>{Ids{1}, Ids{2}}));
  EXPECT_EQ(full.model, "m");
  EXPECT_TRUE(full.base64);
  EXPECT_EQ(full.dimensions, 64u);
  EXPECT_EQ(full.user, "u");
  EXPECT_FALSE(embed(R"("input":"x","encoding_format":"float")").base64);
  EXPECT_BAD(embed(""), "input", "missing_required_parameter");
  EXPECT_BAD(embed(R"("input":"")"), "input", "empty_string", "expected a text");
  EXPECT_BAD(embed(R"("input":["a",""])"), "input[1]", "empty_string");
  EXPECT_BAD(embed(R"("input":[""])"), "input[0]", "empty_string");
  EXPECT_BAD(embed(R"("input":[])"), "input", "empty_array");
  EXPECT_BAD(embed(R"("input":"x","encoding_format":"int8")"), "encoding_format", "invalid_value", "found \"int8\"");
  EXPECT_BAD(embed(R"("input":"x","dimensions":0)"), "dimensions", "integer_below_min_value");
  EXPECT_BAD(embed(R"("input":"x","dimensions":"8")"), "dimensions", "invalid_type");
  EXPECT_BAD(embed(R"("input":"x","temperature":1)"), "temperature", "unknown_parameter");
}

TEST(Requests, Tokenize) {
  const auto read = [](std::string_view body) { return tokenize_request(body, small_rules()); };
  EXPECT_EQ(read(R"({"content":")" + std::string(1 << 20, 'x') + "\"}").content.size(), size_t(1) << 20);
  EXPECT_BAD(read(R"({"content":")" + std::string((1 << 20) + 1, 'x') + "\"}"), "content", "string_above_max_length");
  const TokenizeRequest request = read(R"({"content":"hello"})");
  EXPECT_EQ(request.content, "hello");
  EXPECT_FALSE(request.add_special);
  EXPECT_TRUE(request.parse_special);
  EXPECT_FALSE(request.with_pieces);
  const TokenizeRequest full = read(R"({"content":"","add_special":true,"parse_special":false,"with_pieces":true})");
  EXPECT_EQ(full.content, "");
  EXPECT_TRUE(full.add_special);
  EXPECT_FALSE(full.parse_special);
  EXPECT_TRUE(full.with_pieces);
  EXPECT_BAD(read("{}"), "content", "missing_required_parameter");
  EXPECT_BAD(read(R"({"content":[1]})"), "content", "invalid_type");
  EXPECT_BAD(read(R"({"content":"x","prompt":"x"})"), "prompt", "unknown_parameter");
}

TEST(Requests, Detokenize) {
  const auto read = [](std::string_view body) { return detokenize_request(body, small_rules()); };
  std::string many = "7";
  for (int i = 1; i <= 1 << 18; ++i) many += ",7";
  EXPECT_BAD(read(R"({"tokens":[)" + many + "]}"), "tokens", "array_above_max_length");
  EXPECT_EQ(read(R"({"tokens":[1,267]})").tokens, (Ids{1, 267}));
  EXPECT_TRUE(read(R"({"tokens":[]})").tokens.empty());
  EXPECT_TRUE(read(R"({"tokens":[]})").special);
  EXPECT_FALSE(read(R"({"tokens":[],"special":false})").special);
  EXPECT_BAD(read("{}"), "tokens", "missing_required_parameter");
  EXPECT_BAD(read(R"({"tokens":"1"})"), "tokens", "invalid_type");
  EXPECT_BAD(read(R"({"tokens":[268]})"), "tokens[0]", "integer_above_max_value", "0 to 267");
}

}  // namespace
}  // namespace heddle::server

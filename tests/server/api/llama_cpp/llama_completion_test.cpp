// llama.cpp's routes with the model that counts: "a" is continued by "bcd".
#include "server/api/llama_cpp/llama_completion.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/api/request_fixture.h"
#include "tests/server/service/service_fixture.h"

namespace heddle::server {
namespace {

using test::Recorded;
using test::ServiceFixture;

LlamaCompletionRequest llama(std::string_view fields) {
  return read_llama_completion(with_prompt(fields), small_rules());
}

TEST(LlamaRequests, HaveLlamaCppsDefaults) {
  const LlamaCompletionRequest request = llama("");
  const engine::Sampling& sampling = request.generation.sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.8f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_FLOAT_EQ(sampling.top_p, 0.95f);
  EXPECT_FLOAT_EQ(sampling.min_p, 0.05f);
  EXPECT_EQ(request.generation.max_tokens, std::nullopt);
  EXPECT_FALSE(request.stream || request.is_list || request.return_tokens);
  EXPECT_EQ(llama(R"("samplers":["temperature"])").generation.sampling.top_k, 0) << "a step that is left out stays out";
  EXPECT_EQ(llama(R"("mirostat":2)").generation.sampling.top_k, 0) << "mirostat takes the place of these";
}

TEST(LlamaRequests, KnowLlamaCppsWaysToSayIt) {
  EXPECT_EQ(llama(R"("n_predict":5)").generation.max_tokens, 5u);
  EXPECT_EQ(llama(R"("n_predict":-1)").generation.max_tokens, std::nullopt);
  EXPECT_EQ(llama(R"("n_predict":-2)").generation.max_tokens, std::nullopt);
  EXPECT_EQ(llama(R"("max_tokens":6)").generation.max_tokens, 6u);
  EXPECT_EQ(llama(R"("seed":-1)").generation.sampling.seed, std::nullopt);
  EXPECT_EQ(llama(R"("seed":7)").generation.sampling.seed, 7u);
  EXPECT_EQ(llama(R"("temperature":-1)").generation.sampling.temperature, 0);
  EXPECT_EQ(llama(R"("n_probs":3)").generation.sampling.logprobs, 3u);
  EXPECT_EQ(llama(R"("n_cmpl":2)").generation.n, 2u);
  EXPECT_EQ(llama(R"("samplers":["top_k","typ_p","temperature"])").generation.sampling.order,
            (std::vector<std::string>{"logit_bias", "top_k", "typical_p", "temperature"}));
  EXPECT_EQ(llama(R"("samplers":"kt")").generation.sampling.order,
            (std::vector<std::string>{"logit_bias", "top_k", "temperature"}));
  EXPECT_EQ(llama(R"("json_schema":{"type":"integer"})").generation.constraint->field, "json_schema");
  EXPECT_EQ(llama(R"("stop":["a","b"])").generation.stop_strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(llama(R"("cache_prompt":false)").generation.reuse);
}

TEST(LlamaRequests, BiasesNameTokensOrTexts) {
  const auto bias = [](std::string_view value) {
    return llama(fmt::format(R"("logit_bias":{})", value)).generation.sampling.logit_bias;
  };
  using Biases = std::map<uint32_t, float>;
  EXPECT_EQ(bias("[[65,1.5],[66,-200]]"), (Biases{{65, 1.5f}, {66, -100.f}}));
  EXPECT_EQ(bias(R"([["hello",2]])"), (Biases{{259, 2.f}}));
  EXPECT_EQ(bias(R"({"65":1,"x":-1})"), (Biases{{65, 1.f}, {120, -1.f}}));
  EXPECT_TRUE(std::isinf(bias("[[65,false]]").at(65)));
  EXPECT_BAD(bias("[[65,true]]"), "logit_bias", "invalid_type", "false for never");
  EXPECT_BAD(bias("[65]"), "logit_bias", "invalid_type", "pairs");
  EXPECT_BAD(bias("[[99999,1]]"), "logit_bias", "integer_above_max_value");
}

TEST(LlamaRequests, PromptsAreTextsTokensOrBoth) {
  const auto prompts = [](std::string_view prompt) {
    return read_llama_completion(fmt::format(R"({{"prompt":{}}})", prompt), small_rules());
  };
  EXPECT_EQ(prompts(R"("hi")").prompts, (std::vector<MixedPrompt>{{"hi"}}));
  EXPECT_EQ(prompts("[1,2]").prompts, (std::vector<MixedPrompt>{{1u, 2u}}));
  EXPECT_EQ(prompts(R"([1,"hi",2])").prompts, (std::vector<MixedPrompt>{{1u, "hi", 2u}}));
  EXPECT_EQ(prompts(R"(["a","b"])").prompts, (std::vector<MixedPrompt>{{"a"}, {"b"}}));
  EXPECT_TRUE(prompts(R"(["a","b"])").is_list);
  EXPECT_FALSE(prompts(R"(["a"])").is_list);
  EXPECT_EQ(prompts(R"(["a",[1,"b"]])").prompts, (std::vector<MixedPrompt>{{"a"}, {1u, "b"}}));
  EXPECT_EQ(prompts(R"({"prompt_string":"a"})").prompts, (std::vector<MixedPrompt>{{"a"}}));
  EXPECT_BAD(prompts("5"), "prompt", "invalid_type", "a string");
  EXPECT_BAD(prompts("[1,999]"), "prompt[1]", "integer_above_max_value");
  EXPECT_BAD(prompts(R"({"prompt_string":"a","multimodal_data":["x"]})"), "prompt.multimodal_data",
             "unsupported_value");
  EXPECT_BAD(read_llama_completion("{}", small_rules()), "prompt", "missing_required_parameter");
}

TEST(LlamaRequests, WhatIsNotDoneIsRefusedByName) {
  EXPECT_BAD(llama(R"("t_max_predict_ms":100)"), "t_max_predict_ms", "unsupported_parameter", "a limit of time");
  EXPECT_BAD(llama(R"("n_indent":4)"), "n_indent", "unsupported_parameter", "indentation");
  EXPECT_BAD(llama(R"("lora":[{"id":0,"scale":1}])"), "lora", "unsupported_parameter", "adapters");
  EXPECT_BAD(llama(R"("samplers":"kq")"), "samplers", "invalid_type", "edskypmxt");
  llama(R"("t_max_predict_ms":0,"n_indent":0,"lora":[],"id_slot":-1,"n_keep":0,"timings_per_token":false)");
}

TEST(LlamaCompletion, OneDocument) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded found =
      fixture.post("/completion", R"({"prompt":"a","n_predict":3,"temperature":0,"return_tokens":true,"id_slot":2})");
  ASSERT_EQ(found.status(), 200) << found.response().body;
  EXPECT_EQ(found.header("X-Heddle-Ignored"), "id_slot");
  const Json json = found.json();
  EXPECT_EQ(json.at("content"), "bcd");
  EXPECT_EQ(json.at("tokens"), Json({67, 68, 69}));
  EXPECT_EQ(json.at("stop"), true);
  EXPECT_EQ(json.at("stop_type"), "limit");
  EXPECT_EQ(json.at("stopping_word"), "");
  EXPECT_EQ(json.at("tokens_predicted"), 3);
  EXPECT_EQ(json.at("tokens_evaluated"), 2) << "BOS and a";
  EXPECT_EQ(json.at("truncated"), false);
  EXPECT_EQ(json.at("has_new_line"), false);
  EXPECT_EQ(json.at("model"), "count/er");
  EXPECT_EQ(json.at("prompt"), "<s>a");
  EXPECT_EQ(json.at("generation_settings").at("n_predict"), 3);
  EXPECT_EQ(json.at("generation_settings").at("top_p"), 0.95);
  const Json& timings = json.at("timings");
  EXPECT_EQ(timings.at("prompt_n"), 2);
  EXPECT_EQ(timings.at("predicted_n"), 3);
  EXPECT_GE(timings.at("predicted_ms").get<double>(), 0);
  EXPECT_FALSE(json.contains("completion_probabilities"));
}

TEST(LlamaCompletion, EndsOfAllKinds) {
  ServiceFixture fixture;
  fixture.serve();
  const auto end = [&](std::string fields) {
    const Json json = fixture.post("/completions", "{\"temperature\":0," + fields + "}").json();
    return json.at("content").get<std::string>() + "|" + json.at("stop_type").get<std::string>() + "|" +
           json.at("stopping_word").get<std::string>() + "|" + json.at("tokens_predicted").dump();
  };
  EXPECT_EQ(end(R"("prompt":"a","stop":["d"])"), "bc|word|d|3");
  EXPECT_EQ(end(R"("prompt":"}")"), "~\u00e9|eos||4");
  EXPECT_EQ(end(R"("prompt":"a","n_predict":0)"), "|limit||0");
  EXPECT_EQ(end(R"("prompt":[66,"bc"],"n_predict":1)"), "d|limit||1");
}

TEST(LlamaCompletion, Streamed) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded found =
      fixture.post("/completion", R"({"prompt":"a","n_predict":2,"temperature":0,"stream":true,"n_probs":1})");
  ASSERT_TRUE(found.streamed());
  std::vector<Json> events;
  for (const std::string& event : found.events()) events.push_back(Json::parse(event));
  ASSERT_EQ(events.size(), 3u) << "and no [DONE]";
  EXPECT_EQ(events[0].at("content"), "b");
  EXPECT_EQ(events[0].at("tokens"), Json({67}));
  EXPECT_EQ(events[0].at("stop"), false);
  EXPECT_EQ(events[0].at("tokens_predicted"), 1);
  const Json& probability = events[0].at("completion_probabilities").at(0);
  EXPECT_EQ(probability.at("id"), 67);
  EXPECT_EQ(probability.at("token"), "b");
  EXPECT_EQ(probability.at("bytes"), Json({98}));
  EXPECT_EQ(probability.at("top_logprobs").size(), 1u);
  EXPECT_LE(probability.at("logprob").get<double>(), 0);
  EXPECT_EQ(events[1].at("content"), "c");
  EXPECT_EQ(events[2].at("stop"), true);
  EXPECT_EQ(events[2].at("content"), "");
  EXPECT_EQ(events[2].at("stop_type"), "limit");
  EXPECT_EQ(events[2].at("tokens_predicted"), 2);
  EXPECT_TRUE(events[2].contains("timings"));
}

TEST(LlamaCompletion, SeveralPromptsAndChosenFields) {
  ServiceFixture fixture;
  fixture.serve();
  const Json list = fixture
                        .post("/completion", R"({"prompt":["a","x"],"n_predict":1,"temperature":0,
                               "response_fields":["content","index","generation_settings/n_predict","nothing"]})")
                        .json();
  EXPECT_EQ(list, Json::parse(R"([{"content":"b","index":0,"generation_settings/n_predict":1},
                                  {"content":"y","index":1,"generation_settings/n_predict":1}])"));
  const Json after = fixture
                         .post("/completion", R"({"prompt":"a","n_predict":1,"temperature":0,"n_probs":2,
                                   "post_sampling_probs":true})")
                         .json();
  EXPECT_EQ(after.at("completion_probabilities").at(0).at("prob"), 1.0);
  EXPECT_TRUE(after.at("completion_probabilities").at(0).contains("top_probs"));
}

TEST(LlamaCompletion, ErrorsAreLlamaCpps) {
  ServiceFixture fixture;
  fixture.serve();
  const Recorded found = fixture.post("/completion", R"({"prompt":"a","n_indent":2})");
  EXPECT_EQ(found.status(), 400);
  EXPECT_EQ(found.json().at("error").at("code"), 400);
  EXPECT_EQ(found.json().at("error").at("type"), "invalid_request_error");
  const Recorded infill = fixture.post("/infill", R"({"input_prefix":"a","input_suffix":"b"})");
  EXPECT_EQ(infill.status(), 501);
  EXPECT_EQ(infill.json().at("error").at("type"), "not_supported_error");
  test::expect_says(infill.json().at("error").at("message").get<std::string>(),
                    {"prefix token", "suffix token", "middle token", "<|fim_prefix|>"});
}

TEST(LlamaCompletion, PropsAndSlots) {
  ServiceFixture fixture;
  fixture.serve();
  const Json props = fixture.get("/props").json();
  EXPECT_EQ(props.at("default_generation_settings").at("n_ctx"), 200);
  EXPECT_EQ(props.at("bos_token"), "<s>");
  EXPECT_EQ(props.at("eos_token"), "<|im_end|>");
  EXPECT_EQ(props.at("chat_template"), test::counting_template);
  EXPECT_EQ(props.at("total_slots"), 1);
  const Json slots = fixture.get("/slots?fail_on_no_slot=1").json();
  EXPECT_EQ(slots, Json::parse(R"([{"id":0,"n_ctx":200,"speculative":false,"is_processing":false}])"));
}

// The order of the parts, as llama.cpp has it.
TEST(LlamaCompletion, InfillsBetweenPrefixAndSuffix) {
  text::Vocabulary vocabulary = test::byte_level_vocabulary();
  const text::TokenId prefix = test::add_token(vocabulary, "<|fim_prefix|>", text::TokenType::control),
                      suffix = test::add_token(vocabulary, "<|fim_suffix|>", text::TokenType::control),
                      middle = test::add_token(vocabulary, "<|fim_middle|>", text::TokenType::control),
                      file = test::add_token(vocabulary, "<|file_sep|>", text::TokenType::control),
                      repository = test::add_token(vocabulary, "<|repo_name|>", text::TokenType::control);
  const text::Tokenizer tokenizer = text::Tokenizer::from_vocabulary(vocabulary);
  const RequestRules rules{tokenizer, uint32_t(tokenizer.size())};
  const auto text_of = [&](std::string_view body) {
    return tokenizer.decode(encode_infill(tokenizer, read_infill(body, rules)), true);
  };
  EXPECT_EQ(text_of(R"({"input_prefix":"ab","input_suffix":"cd","prompt":"x"})"),
            "<|begin|><|fim_prefix|>abx<|fim_suffix|>cd<|fim_middle|>");
  EXPECT_EQ(text_of(R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"f.h","text":"T"}]})"),
            "<|begin|><|repo_name|>myproject\n<|file_sep|>f.h\nT<|file_sep|>filename\n<|fim_prefix|>a<|fim_suffix|>b<|"
            "fim_middle|>");
  const auto ids =
      encode_infill(tokenizer, read_infill(R"({"input_prefix":"<|fim_suffix|>","input_suffix":""})", rules));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), suffix), 1) << "a text cannot forge a token";
  EXPECT_EQ(ids[1], prefix) << "behind BOS";
  EXPECT_EQ(ids.back(), middle);
  EXPECT_EQ(infill_tokens(tokenizer).ends, (std::vector<text::TokenId>{repository, file}));
  EXPECT_BAD(read_infill(R"({"input_prefix":"a"})", rules), "input_suffix", "missing_required_parameter");
  EXPECT_BAD(read_infill(R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"x"}]})", rules),
             "input_extra[0].text", "missing_required_parameter");
}

}  // namespace
}  // namespace heddle::server

// The bodies of Ollama's requests: every field, what is taken without effect, and what is refused.
#include <gtest/gtest.h>

#include "tests/server/api/ollama/ollama_fixture.h"

namespace heddle::server {
namespace {

using Strings = std::vector<std::string>;

// The fields that were taken without effect.
template <class Read>
Strings ignored_by(Read&& read, const std::string& body) {
  IgnoredFields ignored;
  RequestRules rules = small_rules();
  rules.ignored = &ignored;
  if constexpr (std::is_invocable_v<Read, std::string, IgnoredFields*>)
    read(body, &ignored);
  else
    read(body, rules);
  return ignored.names();
}

TEST(OllamaRequests, DefaultsAreOllamas) {
  const OllamaRequest request = ollama_chat_of("");
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.form, OllamaForm::chat);
  EXPECT_EQ(request.model, "");
  EXPECT_EQ(request.loads, "");
  EXPECT_EQ(request.think, std::nullopt);
  EXPECT_EQ(request.conversation.messages, R"([{"role":"user","content":"x"}])");
  const GenerationRequest& generation = request.generation;
  EXPECT_EQ(generation.sampling.temperature, 0.8f);
  EXPECT_EQ(generation.sampling.top_k, 40);
  EXPECT_EQ(generation.sampling.top_p, 0.9f);
  EXPECT_EQ(generation.sampling.repetition_penalty, 1);
  EXPECT_EQ(generation.sampling.repetition_last_n, 64);
  EXPECT_EQ(generation.sampling.seed, std::nullopt);
  EXPECT_EQ(generation.max_tokens, std::nullopt);
  EXPECT_FALSE(generation.constraint);
  EXPECT_FALSE(generation.sampling.logprobs);
}

TEST(OllamaRequests, OptionsByOllamasNames) {
  const OllamaRequest request = ollama_chat_of(
      R"("model":"m:1b","stream":false,"options":{"num_predict":7,"temperature":0.5,"top_k":3,"top_p":0.25,"min_p":0.125,
      "typical_p":0.75,"repeat_penalty":1.5,"repeat_last_n":-1,"presence_penalty":1,"frequency_penalty":-1,"seed":42,
      "stop":["a","b"]})");
  EXPECT_EQ(request.model, "m:1b");
  EXPECT_FALSE(request.stream);
  const GenerationRequest& generation = request.generation;
  EXPECT_EQ(generation.max_tokens, 7u);
  EXPECT_EQ(generation.stop_strings, (Strings{"a", "b"}));
  const engine::Sampling& sampling = generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.top_p, 0.25f);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.typical_p, 0.75f);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.repetition_last_n, -1);
  EXPECT_EQ(sampling.presence_penalty, 1);
  EXPECT_EQ(sampling.frequency_penalty, -1);
  EXPECT_EQ(sampling.seed, 42u);
}

TEST(OllamaRequests, NoLimitAndNoSeed) {
  for (const char* none : {"-1", "-2", "null"})
    EXPECT_EQ(ollama_chat_of(fmt::format(R"("options":{{"num_predict":{}}})", none)).generation.max_tokens,
              std::nullopt);
  EXPECT_EQ(ollama_chat_of(R"("options":{"num_predict":0})").generation.max_tokens, 0u);
  EXPECT_EQ(ollama_chat_of(R"("options":{"seed":-1})").generation.sampling.seed, std::nullopt);
  EXPECT_BAD(ollama_chat_of(R"("options":{"num_predict":-3})"), "options.num_predict", "integer_below_min_value");
}

TEST(OllamaRequests, MirostatReplacesTheDefaults) {
  const engine::Sampling sampling =
      ollama_chat_of(R"("options":{"mirostat":2,"mirostat_tau":4,"mirostat_eta":0.5})").generation.sampling;
  EXPECT_EQ(sampling.mirostat, 2);
  EXPECT_EQ(sampling.mirostat_tau, 4);
  EXPECT_EQ(sampling.mirostat_eta, 0.5f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.top_p, 1);
  EXPECT_EQ(sampling.temperature, 0.8f);
  EXPECT_BAD(ollama_chat_of(R"("options":{"mirostat":1})"), "options.mirostat", "unsupported_value", "0 (off) or 2");
}

TEST(OllamaRequests, FieldsWithoutEffectAreNamed) {
  const std::string body = R"({"messages":[{"role":"user","content":"x","odd":1}],"keep_alive":"5m","truncate":true,
    "shift":false,"top_logprobs":3,"options":{"num_ctx":32768,"num_gpu":99,"num_thread":8,"num_batch":2,"tfs_z":0.5,
    "made_up":1},"made_up":2})";
  EXPECT_EQ(
      ignored_by(read_ollama_chat, body),
      (Strings{"messages[].odd", "options.num_ctx", "options.num_batch", "options.num_gpu", "options.num_thread",
               "options.tfs_z", "options.made_up", "top_logprobs", "keep_alive", "truncate", "shift", "made_up"}));
  EXPECT_BAD(read_ollama_chat(body, small_rules()), "messages[0].odd", "unknown_parameter");
  EXPECT_BAD(ollama_chat_of(R"("options":{"num_ctx":5})"), "options.num_ctx", "unsupported_parameter", "has no effect");
}

TEST(OllamaRequests, Format) {
  const auto format = [](std::string_view value) {
    return ollama_chat_of(fmt::format(R"("format":{})", value)).generation.constraint;
  };
  EXPECT_FALSE(format("\"\""));
  EXPECT_FALSE(format("null"));
  EXPECT_EQ(format("\"json\"")->source.text, R"({"type":"object"})");
  const auto schema = format(R"({"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}})");
  EXPECT_EQ(schema->source.kind, grammar::Source::Kind::json_schema);
  EXPECT_EQ(schema->source.text, R"({"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}})");
  EXPECT_EQ(schema->field, "format");
  EXPECT_BAD(format("\"xml\""), "format", "invalid_value", "\"json\" or a JSON Schema", "found \"xml\"");
  EXPECT_BAD(format("true"), "format", "invalid_value");
}

TEST(OllamaRequests, Think) {
  const auto think = [](std::string_view value) { return ollama_chat_of(fmt::format(R"("think":{})", value)); };
  EXPECT_EQ(think("true").think, true);
  EXPECT_EQ(think("true").thinking.effort, "");
  EXPECT_EQ(think("false").think, false);
  EXPECT_EQ(think("false").thinking.effort, "none");
  EXPECT_EQ(think("\"high\"").think, true);
  EXPECT_EQ(think("\"high\"").thinking.effort, "high");
  EXPECT_BAD(think("\"some\""), "think", "invalid_value", "\"low\"", "found \"some\"");
  EXPECT_BAD(think("1"), "think", "invalid_value");
}

TEST(OllamaRequests, LogProbabilities) {
  EXPECT_EQ(ollama_chat_of(R"("logprobs":true)").generation.sampling.logprobs, 0u);
  EXPECT_EQ(ollama_text_of(R"("logprobs":true,"top_logprobs":5)").generation.sampling.logprobs, 5u);
  EXPECT_BAD(ollama_chat_of(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs", "integer_above_max_value");
}

TEST(OllamaRequests, Prompts) {
  const OllamaRequest request = ollama_text_of(R"("system":"Be brief.")");
  EXPECT_EQ(request.form, OllamaForm::generate);
  EXPECT_EQ(request.conversation.messages,
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"x"}])");
  EXPECT_EQ(request.conversation.field, "prompt");
  EXPECT_FALSE(request.raw);
  EXPECT_EQ(ollama_text_of(R"("raw":true)").raw, "x");
  EXPECT_BAD(ollama_text_of(R"("raw":true,"system":"s")"), "system", "", "\"raw\": true", "found \"s\"");
}

TEST(OllamaRequests, WhatIsRefused) {
  EXPECT_BAD(ollama_text_of(R"("images":["aGk="])"), "images", "unsupported_parameter", "does not support images",
             "expected null");
  EXPECT_BAD(ollama_text_of(R"("suffix":"end")"), "suffix", "unsupported_parameter", "found \"end\"");
  EXPECT_BAD(ollama_text_of(R"("template":"{{ .Prompt }}")"), "template", "unsupported_parameter", "the model's");
  EXPECT_BAD(ollama_text_of(R"("context":[1,2])"), "context", "unsupported_parameter", "/api/chat", "found [1,2]");
  EXPECT_BAD(ollama_chat_of(R"("_debug_render_only":true)"), "_debug_render_only", "unsupported_parameter",
             "/apply-template");
  EXPECT_BAD(ollama_chat_of(R"("options":{"n":2})"), "options.n", "unsupported_value", "expected 1, found 2");
  EXPECT_BAD(ollama_chat_of(R"("options":{"temperature":"hot"})"), "options.temperature", "invalid_type", "a number");
  EXPECT_BAD(ollama_chat_of(R"("options":{"stop":[1]})"), "options.stop[0]", "invalid_type", "a string");
  EXPECT_BAD(ollama_chat_of(R"("options":{"seed":0.5})"), "options.seed", "invalid_type", "a whole number");
  EXPECT_BAD(ollama_chat_of(R"("options":[])"), "options", "invalid_type", "an object");
  EXPECT_BAD(ollama_chat_of(R"("stream":"no")"), "stream", "invalid_type", "true or false");
  // values that ask for nothing
  ollama_text_of(R"("images":[],"suffix":"","template":"","context":[],"system":"")");
}

TEST(OllamaRequests, WithoutMessagesOrPromptTheModelIsLoaded) {
  const auto loads_chat = [](std::string body) {
    IgnoredFields ignored;
    RequestRules rules = small_rules();
    rules.ignored = &ignored;
    return read_ollama_chat(body, rules).loads;
  };
  EXPECT_EQ(loads_chat("{}"), "load");
  EXPECT_EQ(loads_chat(R"({"messages":[]})"), "load");
  EXPECT_EQ(loads_chat(R"({"messages":[],"keep_alive":"5m"})"), "load");
  EXPECT_EQ(loads_chat(R"({"messages":[],"keep_alive":-1})"), "load");
  for (const char* zero : {"0", "0.0", "\"0\"", "\"0s\"", "\"0m0s\""})
    EXPECT_EQ(loads_chat(fmt::format(R"({{"messages":[],"keep_alive":{}}})", zero)), "unload") << zero;
  EXPECT_EQ(read_ollama_generate("{}", small_rules()).loads, "load");
  EXPECT_EQ(read_ollama_generate(R"({"prompt":""})", small_rules()).loads, "load");
}

TEST(OllamaRequests, KeepAliveWhereModelsArePutAway) {
  const auto seconds = [](const std::string& value) {
    RequestRules rules = small_rules();
    rules.unloads_models = true;
    return read_ollama_chat(fmt::format(R"({{"messages":[],"keep_alive":{}}})", value), rules).keep_alive;
  };
  EXPECT_EQ(seconds("90"), 90);
  EXPECT_EQ(seconds("0"), 0);
  EXPECT_EQ(seconds("\"1h30m\""), 5400);
  EXPECT_EQ(seconds("-1"), ModelsOptions::forever);
  EXPECT_EQ(seconds("\"-1m\""), ModelsOptions::forever);
  EXPECT_EQ(seconds("null"), std::nullopt);
  EXPECT_BAD(seconds("\"soon\""), "keep_alive", "invalid_value", "a duration");
  EXPECT_BAD(seconds("[]"), "keep_alive", "invalid_value", "a duration");
}

TEST(OllamaRequests, Embeddings) {
  const auto embed = [](std::string_view fields) {
    return read_ollama_embed(fmt::format("{{{}}}", fields), small_rules());
  };
  EXPECT_EQ(embed(R"("model":"m","input":"text")").inputs, Strings{"text"});
  EXPECT_EQ(embed(R"("model":"m","input":"text")").model, "m");
  EXPECT_TRUE(embed(R"("input":"x")").truncate);
  EXPECT_FALSE(embed(R"("input":"x","truncate":false)").truncate);
  EXPECT_EQ(embed(R"("input":["a","","b"])").inputs, (Strings{"a", "", "b"}));
  EXPECT_EQ(embed(R"("input":"x","dimensions":8)").dimensions, 8u);
  EXPECT_EQ(embed(R"("input":"x","dimensions":0)").dimensions, std::nullopt);
  EXPECT_TRUE(embed("").inputs.empty());
  EXPECT_TRUE(embed(R"("input":[])").inputs.empty());
  EXPECT_TRUE(embed(R"("input":"")").inputs.empty());
  EXPECT_BAD(embed(R"("input":3)"), "input", "invalid_type", "a string or a list of strings");
  EXPECT_BAD(embed(R"("input":["a",3])"), "input[1]", "invalid_type", "a string");
  EXPECT_EQ(read_ollama_embeddings(R"({"prompt":"p","model":"m"})", small_rules()).inputs, Strings{"p"});
  EXPECT_TRUE(read_ollama_embeddings("{}", small_rules()).inputs.empty());
  EXPECT_EQ(ignored_by(read_ollama_embed, R"({"input":"x","keep_alive":0,"options":{"num_ctx":8}})"),
            (Strings{"keep_alive", "options"}));
}

TEST(OllamaRequests, ModelsByEitherName) {
  const auto model = [](std::string_view body) { return read_ollama_model(body, nullptr); };
  EXPECT_EQ(model(R"({"model":"m"})").model, "m");
  EXPECT_EQ(model(R"({"name":"n"})").model, "n");
  EXPECT_EQ(model(R"({"model":"m","name":"n","stream":false})").model, "m");
  EXPECT_TRUE(model(R"({"model":"m"})").stream);
  EXPECT_FALSE(model(R"({"model":"m","stream":false})").stream);
  EXPECT_BAD(model("{}"), "model", "missing_required_parameter");
  EXPECT_EQ(ignored_by(read_ollama_model, R"({"model":"m","verbose":true,"insecure":true})"),
            (Strings{"verbose", "insecure"}));
}

}  // namespace
}  // namespace heddle::server

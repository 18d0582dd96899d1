// The fields that chats and completions share: sampling, stopping, how the response is sent.
#include <cmath>
#include <functional>

#include "tests/server/api/request_fixture.h"

namespace heddle::server {
namespace {

using engine::Sampling;

Sampling sampling(std::string_view fields) { return complete(fields).generation.sampling; }
GenerationRequest generation(std::string_view fields) { return chat(fields).generation; }
StreamOptions stream_options(std::string_view fields) { return chat(fields).stream; }

TEST(OpenAiRequest, DefaultsChangeNothing) {
  for (const GenerationRequest& request : {chat("").generation, complete("").generation}) {
    const Sampling none;
    EXPECT_EQ(request.sampling.temperature, 1);
    EXPECT_EQ(request.sampling.top_p, 1);
    EXPECT_EQ(request.sampling.top_k, none.top_k);
    EXPECT_EQ(request.sampling.order, none.order);
    EXPECT_EQ(request.sampling.min_keep, 1u);
    EXPECT_EQ(request.sampling.mirostat, 0);
    EXPECT_EQ(request.sampling.mirostat_tau, none.mirostat_tau);
    EXPECT_EQ(request.sampling.mirostat_eta, none.mirostat_eta);
    EXPECT_TRUE(request.sampling.logit_bias.empty());
    EXPECT_TRUE(request.dry_sequence_breakers.empty());
    EXPECT_EQ(request.sampling.seed, std::nullopt);
    EXPECT_TRUE(request.stop_strings.empty());
    EXPECT_TRUE(request.stop_tokens.empty());
    EXPECT_FALSE(request.ignore_eos);
    EXPECT_EQ(request.n, 1u);
    EXPECT_EQ(request.priority, 0);
    EXPECT_EQ(request.speculation, engine::Speculation::automatic);
    EXPECT_TRUE(request.reuse);
    EXPECT_EQ(request.user, "");
  }
}

struct Parameter {
  const char* name;
  std::function<double(const Sampling&)> value;
  double low, high;  // both are accepted; NaN: no limit on that side
  bool is_whole = false;
};
const double none = std::nan("");
const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> all{
      {"temperature", [](const Sampling& s) { return s.temperature; }, 0, 2},
      {"dynatemp_range", [](const Sampling& s) { return s.dynamic_range; }, 0, 2},
      {"dynatemp_exponent", [](const Sampling& s) { return s.dynamic_exponent; }, 0, none},
      {"top_k", [](const Sampling& s) { return s.top_k; }, -1, 2147483647, true},
      {"top_p", [](const Sampling& s) { return s.top_p; }, 0, 1},
      {"min_p", [](const Sampling& s) { return s.min_p; }, 0, 1},
      {"typical_p", [](const Sampling& s) { return s.typical_p; }, 0, 1},
      {"top_n_sigma", [](const Sampling& s) { return s.top_n_sigma; }, -1, none},
      {"xtc_probability", [](const Sampling& s) { return s.xtc_probability; }, 0, 1},
      {"xtc_threshold", [](const Sampling& s) { return s.xtc_threshold; }, 0, 1},
      {"min_keep", [](const Sampling& s) { return s.min_keep; }, 1, 268, true},
      {"mirostat_tau", [](const Sampling& s) { return s.mirostat_tau; }, 0, none},
      {"mirostat_eta", [](const Sampling& s) { return s.mirostat_eta; }, 0, 1},
      {"repeat_penalty", [](const Sampling& s) { return s.repetition_penalty; }, 0.01, 100},
      {"repetition_penalty", [](const Sampling& s) { return s.repetition_penalty; }, 0.01, 100},
      {"repeat_last_n", [](const Sampling& s) { return s.repetition_last_n; }, -1, 2147483647, true},
      {"presence_penalty", [](const Sampling& s) { return s.presence_penalty; }, -2, 2},
      {"frequency_penalty", [](const Sampling& s) { return s.frequency_penalty; }, -2, 2},
      {"dry_multiplier", [](const Sampling& s) { return s.dry_multiplier; }, 0, none},
      {"dry_base", [](const Sampling& s) { return s.dry_base; }, 1, none},
      {"dry_allowed_length", [](const Sampling& s) { return s.dry_allowed_length; }, 1, 2147483647, true},
      {"dry_penalty_last_n", [](const Sampling& s) { return s.dry_penalty_last_n; }, -1, 2147483647, true},
  };
  return all;
}

TEST(OpenAiRequest, NumbersInTheirRangeAreAccepted) {
  for (const Parameter& parameter : parameters()) {
    SCOPED_TRACE(parameter.name);
    const auto set = [&](const std::string& value) {
      return sampling(fmt::format(R"("{}":{})", parameter.name, value));
    };
    EXPECT_EQ(parameter.value(set("1")), 1);
    EXPECT_EQ(parameter.value(set("1.0")), 1);
    EXPECT_EQ(parameter.value(set("null")), parameter.value(Sampling{}));
    EXPECT_EQ(float(parameter.value(set(fmt::format("{}", parameter.low)))), float(parameter.low));
    if (!std::isnan(parameter.high)) {
      EXPECT_EQ(parameter.value(set(fmt::format("{:.17g}", parameter.high))), parameter.high);
    }
  }
}

TEST(OpenAiRequest, NumbersOutOfTheirRangeAreRefused) {
  for (const Parameter& parameter : parameters()) {
    SCOPED_TRACE(parameter.name);
    const auto set = [&](const std::string& value) {
      return sampling(fmt::format(R"("{}":{})", parameter.name, value));
    };
    const std::string kind = parameter.is_whole ? "integer" : "decimal";
    const double below = parameter.low - (parameter.is_whole ? 1 : 0.001);
    if (std::string_view(parameter.name) != "min_keep")
      EXPECT_BAD(set(fmt::format("{}", below)), parameter.name, kind + "_below_min_value", parameter.name, "expected",
                 "found");
    if (!std::isnan(parameter.high)) {
      const double above = parameter.high + (parameter.is_whole ? 1 : 0.001);
      EXPECT_BAD(set(fmt::format("{:.17g}", above)), parameter.name, kind + "_above_max_value", "expected", "found");
    }
    EXPECT_BAD(set("1e300"), parameter.name, kind + "_above_max_value", "1e+300");
    if (!std::isnan(parameter.high))
      EXPECT_BAD(set("18446744073709551615"), parameter.name, kind + "_above_max_value", "18446744073709551615");
    for (const char* wrong : {"\"1\"", "true", "[1]", "{}"})
      EXPECT_BAD(set(wrong), parameter.name, "invalid_type", parameter.name, "number", wrong);
    if (parameter.is_whole) EXPECT_BAD(set("1.5"), parameter.name, "invalid_type", "a whole number", "1.5");
  }
}

TEST(OpenAiRequest, AcceptedValuesAreValidForTheEngine) {
  for (const Parameter& parameter : parameters()) {
    const auto set = [&](double value) { return sampling(fmt::format(R"("{}":{:.17g})", parameter.name, value)); };
    EXPECT_NO_THROW(engine::validate(set(parameter.low), 268)) << parameter.name;
    EXPECT_NO_THROW(engine::validate(set(std::isnan(parameter.high) ? 1e38 : parameter.high), 268)) << parameter.name;
  }
}

TEST(OpenAiRequest, OneNameOnly) {
  EXPECT_BAD(sampling(R"("repeat_penalty":1,"repetition_penalty":1)"), "repetition_penalty", "invalid_value",
             "another name for repeat_penalty");
  EXPECT_EQ(sampling(R"("repeat_penalty":null,"repetition_penalty":2)").repetition_penalty, 2);
  EXPECT_EQ(sampling(R"("repeat_penalty":3,"repetition_penalty":null)").repetition_penalty, 3);
  EXPECT_EQ(generation(R"("user":"a","safety_identifier":"b")").user, "b");  // the new name
}

TEST(OpenAiRequest, MirostatIsTheSecond) {
  EXPECT_EQ(sampling(R"("mirostat":2)").mirostat, 2);
  EXPECT_EQ(sampling(R"("mirostat":0)").mirostat, 0);
  EXPECT_BAD(sampling(R"("mirostat":1)"), "mirostat", "unsupported_value", "0 (off) or 2", "found 1");
  EXPECT_BAD(sampling(R"("mirostat":3)"), "mirostat", "integer_above_max_value");
  EXPECT_EQ(sampling(R"("min_keep":0)").min_keep, 1u);
}

TEST(OpenAiRequest, Biases) {
  EXPECT_EQ(sampling(R"("logit_bias":{"0":-100,"267":100,"7":1.5})").logit_bias,
            (std::map<uint32_t, float>{{0, -100.f}, {7, 1.5f}, {267, 100.f}}));
  EXPECT_TRUE(sampling(R"("logit_bias":{})").logit_bias.empty());
  for (const char* name : {"268", "-1", "", "x", "1.0", " 1", "4294967296", "+1"})
    EXPECT_BAD(sampling(fmt::format(R"("logit_bias":{{"{}":1}})", name)), "logit_bias", "invalid_value",
               "token ids below 268", name);
  EXPECT_BAD(sampling(R"("logit_bias":{"07":1,"7":1})"), "logit_bias", "invalid_value", "every token once");
  EXPECT_BAD(sampling(R"("logit_bias":{"7":100.5})"), "logit_bias.7", "decimal_above_max_value");
  EXPECT_BAD(sampling(R"("logit_bias":{"7":-101})"), "logit_bias.7", "decimal_below_min_value");
  EXPECT_BAD(sampling(R"("logit_bias":{"7":"1"})"), "logit_bias.7", "invalid_type");
  EXPECT_BAD(sampling(R"("logit_bias":{"7":null})"), "logit_bias.7", "invalid_type");
  EXPECT_BAD(sampling(R"("logit_bias":[[7,1]])"), "logit_bias", "invalid_type", "an object");
}

TEST(OpenAiRequest, SeedsHaveSixtyFourBits) {
  EXPECT_EQ(sampling(R"("seed":0)").seed, 0u);
  EXPECT_EQ(sampling(R"("seed":18446744073709551615)").seed, UINT64_MAX);
  EXPECT_EQ(sampling(R"("seed":-1)").seed, UINT64_MAX);
  EXPECT_EQ(sampling(R"("seed":-9223372036854775808)").seed, uint64_t(1) << 63);
  EXPECT_EQ(sampling(R"("seed":7.0)").seed, 7u);
  EXPECT_EQ(sampling(R"("seed":null)").seed, std::nullopt);
  EXPECT_BAD(sampling(R"("seed":1.5)"), "seed", "invalid_type", "1.5");
  EXPECT_BAD(sampling(R"("seed":18446744073709551616)"), "seed", "invalid_value", "64 bits");
  EXPECT_BAD(sampling(R"("seed":"7")"), "seed", "invalid_type");
}

TEST(OpenAiRequest, StepsInOrder) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(sampling(R"("samplers":["temperature","top_k"])").order, (Names{"temperature", "top_k"}));
  EXPECT_EQ(sampling(R"("samplers":[])").order, Names{});
  EXPECT_BAD(sampling(R"("samplers":["top_q"])"), "samplers", "invalid_value", "temperature", "top_q");
  EXPECT_BAD(sampling(R"("samplers":["top_k","top_k"])"), "samplers", "invalid_value", "twice");
  EXPECT_BAD(sampling(R"("samplers":"kp")"), "samplers", "invalid_type");
  EXPECT_BAD(sampling(R"("samplers":[7])"), "samplers[0]", "invalid_type");
  EXPECT_BAD(sampling(R"("samplers":["top_k"],"top_p":0.5)"), "top_p", "invalid_value", "samplers leaves out");
  EXPECT_BAD(sampling(R"("mirostat":2,"top_k":1)"), "top_k", "invalid_value", "mirostat");
  EXPECT_BAD(sampling(R"("mirostat":2,"xtc_probability":0.5)"), "xtc_probability", "invalid_value", "mirostat");
  EXPECT_EQ(sampling(R"("mirostat":2,"temperature":0.5,"top_p":1,"repeat_penalty":1.1)").mirostat, 2);
  EXPECT_EQ(sampling(R"("mirostat":0,"top_k":1)").top_k, 1);
  EXPECT_BAD(sampling(R"("samplers":["top_k"],"logit_bias":{"1":1})"), "logit_bias", "invalid_value");
  // values that turn nothing on
  EXPECT_EQ(sampling(R"("samplers":["top_k"],"top_p":1,"temperature":1,"dry_multiplier":0,"top_k":4)").top_k, 4);
}

TEST(OpenAiRequest, DryBreakers) {
  const auto breakers = [](std::string_view fields) { return complete(fields).generation.dry_sequence_breakers; };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(breakers(R"("dry_sequence_breakers":["x"])"), Texts{}) << "not needed without DRY";
  EXPECT_EQ(breakers(R"("dry_multiplier":1)"), (Texts{"\n", ":", "\"", "*"}));
  EXPECT_EQ(breakers(R"("dry_multiplier":1,"dry_sequence_breakers":[])"), Texts{});
  EXPECT_EQ(breakers(R"("dry_multiplier":1,"dry_sequence_breakers":["x"])"), Texts{"x"});
  EXPECT_BAD(breakers(R"("dry_sequence_breakers":"x")"), "dry_sequence_breakers", "invalid_type", "a list");
  EXPECT_BAD(breakers(R"("dry_sequence_breakers":["x",""])"), "dry_sequence_breakers[1]", "invalid_value", "1 to 100");
  EXPECT_BAD(breakers(R"("dry_sequence_breakers":[7])"), "dry_sequence_breakers[0]", "invalid_type");
  EXPECT_BAD(breakers(fmt::format(R"("dry_sequence_breakers":["{}"])", std::string(101, 'x'))),
             "dry_sequence_breakers[0]", "invalid_value");
  EXPECT_BAD(breakers(R"("dry_sequence_breakers":["","","","","","","","","","","","","","","","",""])"),
             "dry_sequence_breakers", "array_above_max_length", "at most 16");
}

TEST(OpenAiRequest, Stops) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(generation(R"("stop":"\n")").stop_strings, Texts{"\n"});
  EXPECT_EQ(generation(R"("stop":["a","b"])").stop_strings, (Texts{"a", "b"}));
  EXPECT_EQ(generation(R"("stop":[])").stop_strings, Texts{});
  EXPECT_EQ(generation(R"("stop":null)").stop_strings, Texts{});
  EXPECT_EQ(generation(R"("stop":"")").stop_strings, Texts{});
  EXPECT_EQ(generation(R"("stop":["","a"])").stop_strings, Texts{"a"});
  EXPECT_BAD(generation(R"("stop":["",7])"), "stop[1]", "invalid_type");
  EXPECT_BAD(generation(R"("stop":7)"), "stop", "invalid_type", "a string or a list of strings");
  EXPECT_BAD(generation(R"("stop":[7])"), "stop[0]", "invalid_type");
  EXPECT_BAD(generation(R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])"), "stop",
             "array_above_max_length", "at most 16");
  EXPECT_EQ(generation(fmt::format(R"("stop":"{}")", std::string(256, 'x'))).stop_strings[0].size(), 256u);
  EXPECT_BAD(generation(fmt::format(R"("stop":"{}")", std::string(257, 'x'))), "stop", "string_above_max_length");
  EXPECT_EQ(generation(R"("stop_token_ids":[1,267])").stop_tokens, (std::vector<uint32_t>{1, 267}));
  EXPECT_TRUE(generation(R"("stop_token_ids":[])").stop_tokens.empty());
  EXPECT_BAD(generation(R"("stop_token_ids":[268])"), "stop_token_ids[0]", "integer_above_max_value", "0 to 267");
  EXPECT_BAD(generation(R"("stop_token_ids":7)"), "stop_token_ids", "invalid_type");
  EXPECT_TRUE(generation(R"("ignore_eos":true)").ignore_eos);
}

TEST(OpenAiRequest, HowTheResponseIsSent) {
  EXPECT_EQ(generation(R"("n":128)").n, 128u);
  EXPECT_BAD(generation(R"("n":0)"), "n", "integer_below_min_value", "from 1 to 128");
  EXPECT_BAD(generation(R"("n":129)"), "n", "integer_above_max_value");
  EXPECT_TRUE(stream_options(R"("stream":true)").stream);
  EXPECT_FALSE(stream_options(R"("stream":true)").include_usage);
  EXPECT_TRUE(stream_options(R"("stream":true,"stream_options":{"include_usage":true})").include_usage);
  EXPECT_FALSE(stream_options(R"("stream":true,"stream_options":{"include_usage":null,"include_obfuscation":false})")
                   .include_usage);
  EXPECT_FALSE(stream_options(R"("stream_options":{"include_usage":true})").include_usage);  // a document has it anyway
  EXPECT_FALSE(stream_options(R"("stream":false,"stream_options":{})").stream);
  EXPECT_BAD(generation(R"("stream":true,"stream_options":true)"), "stream_options", "invalid_type");
  EXPECT_BAD(generation(R"("stream":true,"stream_options":{"usage":true})"), "stream_options.usage",
             "unknown_parameter");
  EXPECT_BAD(generation(R"("stream":true,"stream_options":{"include_obfuscation":true})"),
             "stream_options.include_obfuscation", "unsupported_parameter");
  EXPECT_BAD(generation(R"("stream":1)"), "stream", "invalid_type");
}

TEST(OpenAiRequest, KvTransfersAreThoseOfVllm) {
  EXPECT_FALSE(generation("").remote_decode);
  EXPECT_FALSE(generation(R"("kv_transfer_params":null)").remote_prefill);
  const GenerationRequest first =
      generation(R"("kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
                 R"("remote_block_ids":null,"remote_host":null,"remote_port":null})");
  EXPECT_TRUE(first.remote_decode);
  EXPECT_FALSE(first.remote_prefill);
  const GenerationRequest second =
      generation(R"("kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"remote_engine_id":"e",)"
                 R"("remote_block_ids":[0,1],"remote_host":"10.0.0.1","remote_port":8701,"remote_request_id":"r"})");
  EXPECT_FALSE(second.remote_decode);
  ASSERT_TRUE(second.remote_prefill);
  EXPECT_EQ(second.remote_prefill->host, "10.0.0.1");
  EXPECT_EQ(second.remote_prefill->port, 8701);
  EXPECT_EQ(second.remote_prefill->request, "r");
  EXPECT_BAD(generation(R"("kv_transfer_params":7)"), "kv_transfer_params", "invalid_type");
  EXPECT_BAD(generation(R"("kv_transfer_params":{"do_remote_prefill":true})"), "kv_transfer_params", "invalid_value");
  EXPECT_BAD(generation(R"("kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":true})"),
             "kv_transfer_params", "invalid_value", "found both");
}

TEST(OpenAiRequest, FieldsForTheEngineAndTheLog) {
  EXPECT_EQ(generation(R"("priority":-100)").priority, -100);
  EXPECT_BAD(generation(R"("priority":1)"), "priority", "integer_above_max_value");
  EXPECT_EQ(generation(R"("speculate":"on")").speculation, engine::Speculation::on);
  EXPECT_EQ(generation(R"("speculate":"off")").speculation, engine::Speculation::off);
  EXPECT_EQ(generation(R"("speculate":"auto")").speculation, engine::Speculation::automatic);
  EXPECT_BAD(generation(R"("speculate":true)"), "speculate", "invalid_type");
  EXPECT_BAD(generation(R"("speculate":"yes")"), "speculate", "invalid_value", "\"auto\"");
  EXPECT_FALSE(generation(R"("cache_prompt":false)").reuse);
  EXPECT_BAD(generation(R"("cache_prompt":0)"), "cache_prompt", "invalid_type");
  EXPECT_EQ(generation(R"("user":"ada")").user, "ada");
  EXPECT_EQ(generation(R"("safety_identifier":"ada")").user, "ada");
  EXPECT_BAD(generation(R"("user":7)"), "user", "invalid_type");
  EXPECT_BAD(generation(R"("prompt_cache_key":7)"), "prompt_cache_key", "invalid_type");
}

}  // namespace
}  // namespace heddle::server

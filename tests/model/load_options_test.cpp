// Options of models: those that heddle knows count, and those that it does not know are refused by name before weights
// are looked at.
#include <gtest/gtest.h>

#include "tests/model/fixture.h"
#include "tests/support/closeness.h"
#include "tests/support/refused.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

Json patched(Json config, const char* patch) {
  config.merge_patch(parse_json(patch, "patch"));
  return config;
}

struct Option {
  const char *fixture, *patch;
};

// Otherwise a fixture could pass although its option is ignored.
TEST(ModelOptions, EachChangesTheLogits) {
  const Option options[] = {
      {"llama", R"({"rms_norm_eps": 0.01})"},
      {"llama", R"({"rope_parameters": {"rope_theta": 500}})"},
      {"llama-linear", R"({"rope_parameters": {"factor": 3}})"},
      {"llama-llama3", R"({"rope_parameters": {"factor": 2}})"},
      {"llama-llama3", R"({"rope_parameters": {"low_freq_factor": 2}})"},
      {"llama-llama3", R"({"rope_parameters": {"high_freq_factor": 16}})"},
      {"llama-llama3", R"({"rope_parameters": {"original_max_position_embeddings": 16}})"},
      {"llama-yarn", R"({"rope_parameters": {"factor": 8}})"},
      {"llama-yarn", R"({"rope_parameters": {"original_max_position_embeddings": 64}})"},
      {"llama-yarn-betas", R"({"rope_parameters": {"beta_fast": 1.5}})"},
      {"llama-yarn-betas", R"({"rope_parameters": {"beta_slow": 0.25}})"},
      {"llama-yarn-betas", R"({"rope_parameters": {"attention_factor": 1}})"},
      {"llama-yarn-mscale", R"({"rope_parameters": {"mscale": 1.5}})"},
      {"llama-yarn-mscale", R"({"rope_parameters": {"mscale_all_dim": 1.5}})"},
      {"mistral", R"({"sliding_window": 8})"},
      {"mistral", R"({"sliding_window": null})"},
      {"mixtral", R"({"num_experts_per_tok": 3})"},
      {"mixtral-window", R"({"sliding_window": 10})"},
      {"granite", R"({"attention_multiplier": 0.3})"},
      {"granite", R"({"embedding_multiplier": 7})"},
      {"granite", R"({"residual_multiplier": 0.4})"},
      {"granite", R"({"logits_scaling": 2})"},
      {"gpt2", R"({"layer_norm_epsilon": 0.01})"},
      {"gptneox", R"({"use_parallel_residual": false})"},
      {"gptneox", R"({"rope_parameters": {"partial_rotary_factor": 0.5}})"},
      {"gptneox", R"({"hidden_act": "gelu_new"})"},
      {"gptneox-serial", R"({"rope_parameters": {"factor": 3}})"},
      {"qwen2moe", R"({"num_experts_per_tok": 2})"},
      {"qwen3moe", R"({"num_experts_per_tok": 2})"},
      {"phi2", R"({"rope_parameters": {"partial_rotary_factor": 0.8}})"},
      {"phi3-window", R"({"sliding_window": 8})"},
      {"phi3-longrope", R"({"rope_parameters": {"long_factor": [1, 1.3, 2, 3, 7]}})"},
      {"phi3-longrope", R"({"rope_parameters": {"attention_factor": 1}})"},
      {"phi3-longrope-short", R"({"rope_parameters": {"short_factor": [1, 1.5, 1.1, 1.2, 1.4]}})"},
      {"gemma2", R"({"sliding_window": 6})"},
      {"gemma2", R"({"attn_logit_softcapping": 3})"},
      {"gemma2", R"({"final_logit_softcapping": 4})"},
      {"gemma3", R"({"sliding_window": 7})"},
      {"gemma3", R"({"rope_parameters": {"sliding_attention": {"rope_theta": 500}}})"},
      {"gemma3", R"({"rope_parameters": {"full_attention": {"rope_theta": 500}}})"},
      {"gemma3-linear", R"({"rope_parameters": {"full_attention": {"factor": 2}}})"},
      {"gemma3-linear", R"({"final_logit_softcapping": 3})"},
      {"gemma3-linear", R"({"layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                            "full_attention"]})"},
      {"olmo2-yarn", R"({"rope_parameters": {"factor": 2}})"},
      {"mamba2-limits", R"({"time_step_limit": [0.62, 0.75]})"},
      {"mamba2-limits", R"({"time_step_limit": [0.6, 0.7]})"},
      {"granitehybrid-groups", R"({"position_embedding_type": "nope"})"},
      {"falcon-h1", R"({"embedding_multiplier": 5})"},
      {"falcon-h1", R"({"lm_head_multiplier": 0.8})"},
      {"falcon-h1", R"({"mlp_multipliers": [0.9, 1.7]})"},
      {"falcon-h1", R"({"mlp_multipliers": [0.8, 1.6]})"},
      {"falcon-h1", R"({"key_multiplier": 1.6})"},
      {"falcon-h1", R"({"attention_in_multiplier": 1.4})"},
      {"falcon-h1", R"({"attention_out_multiplier": 1})"},
      {"falcon-h1", R"({"ssm_multipliers": [1, 1.1, 1.2, 0.8, 1.4]})"},
      {"falcon-h1", R"({"ssm_multipliers": [0.9, 1, 1.2, 0.8, 1.4]})"},
      {"falcon-h1", R"({"ssm_multipliers": [0.9, 1.1, 1, 0.8, 1.4]})"},
      {"falcon-h1", R"({"ssm_multipliers": [0.9, 1.1, 1.2, 1, 1.4]})"},
      {"falcon-h1", R"({"ssm_multipliers": [0.9, 1.1, 1.2, 0.8, 1]})"},
      {"falcon-h1", R"({"ssm_in_multiplier": 1})"},
      {"falcon-h1", R"({"ssm_out_multiplier": 0.8})"},
      {"falcon-h1-norm", R"({"mamba_norm_before_gate": true})"},
      {"nemotron-h-moe", R"({"routed_scaling_factor": 2})"},
      {"lfm2moe-scaled", R"({"routed_scaling_factor": 2})"},
  };
  for (const Option& option : options) {
    const Fixture fixture(option.fixture);
    const Folder folder;
    fixture.write(folder, patched(fixture.config, option.patch));
    const std::vector<float> logits = Running(folder.path(), fixture.context).all_logits(fixture.ids);
    EXPECT_GT(worst(fixture.logits(), fixture.chosen(logits)), 5e-5) << option.fixture << " " << option.patch;
  }
}

// The files have no tensor at all: a look at one would be the first error.
TEST(ModelOptions, OfAFolderAreRefusedByName) {
  const struct {
    Option option;
    std::initializer_list<std::string_view> says;
  } cases[] = {
      {{"llama", R"({"rope_parameters": {"rope_type": "mrope"}})"}, {"rope_type", "expected one of", "mrope"}},
      {{"llama", R"({"hidden_act": "relu"})"}, {"hidden_act", "silu", "relu"}},
      {{"llama", R"({"attn_output_gate": true})"}, {"options that change the result", "attn_output_gate"}},
      {{"llama", R"({"quantization_config": {"quant_method": "hqq"}})"}, {"quantization_config", "gptq"}},
      {{"llama", R"({"num_key_value_heads": 3})"}, {"num_key_value_heads", "a divisor of the 4"}},
      {{"llama", R"({"head_dim": 13})"}, {"head_dim", "an even number"}},
      {{"llama-yarn", R"({"rope_parameters": {"truncate": 0}})"}, {"truncate", "expected true or false, found 0"}},
      {{"llama-linear", R"({"rope_parameters": {"factor": null}})"}, {"factor", "a number"}},
      {{"mistral", R"({"layer_types": ["sliding_attention", "full_attention"]})"}, {"layer_types", "the same"}},
      {{"smollm3", R"({"use_sliding_window": true, "max_window_layers": 0})"}, {"use_sliding_window"}},
      {{"gpt2", R"({"scale_attn_by_inverse_layer_idx": true})"}, {"scale_attn_by_inverse_layer_idx"}},
      {{"gpt2", R"({"add_cross_attention": true})"}, {"add_cross_attention"}},
      {{"gptneox", R"({"hidden_act": "relu"})"}, {"hidden_act", "gelu", "relu"}},
      {{"qwen2", R"({"layer_types": ["sliding_attention", "full_attention"]})"}, {"layer_types", "full_attention"}},
      {{"qwen2", R"({"rope_parameters": {"rope_type": "llama3", "factor": 8}})"}, {"rope_type", "llama3"}},
      {{"qwen2moe", R"({"mlp_only_layers": [2]})"}, {"mlp_only_layers", "from 0 to 1", "[2]"}},
      {{"gpt-oss", R"({"swiglu_limit": 5.0})"}, {"swiglu_limit", "expected 7.0, found 5.0"}},
      {{"deepseek3", R"({"rope_interleave": false})"}, {"rope_interleave", "expected true"}},
      {{"deepseek3", R"({"num_experts_per_tok": 5})"}, {"num_experts_per_tok", "at most the 4 experts of 2 groups"}},
      {{"llama4", R"({"use_qk_norm": false})"}, {"use_qk_norm", "expected true"}},
      {{"phi2", R"({"qk_layernorm": true})"}, {"qk_layernorm"}},
      {{"phi3", R"({"rope_parameters": {"rope_type": "yarn", "factor": 2}})"}, {"rope_type", "longrope", "yarn"}},
      {{"phi3-longrope", R"({"rope_parameters": {"long_factor": [1, 2], "short_factor": [1, 2]}})"}, {"long_factor"}},
      {{"gemma2", R"({"query_pre_attn_scalar": -7})"}, {"query_pre_attn_scalar", "above 0", "-7"}},
      {{"gemma2", R"({"tie_word_embeddings": false})"}, {"tie_word_embeddings"}},
      {{"gemma3", R"({"use_bidirectional_attention": true})"}, {"use_bidirectional_attention"}},
      {{"gemma3", R"({"attn_logit_softcapping": 50})"}, {"attn_logit_softcapping"}},
      {{"olmo2", R"({"attention_bias": true})"}, {"attention_bias"}},
      {{"mamba2", R"({"use_bias": true})"}, {"use_bias", "expected false"}},
      {{"mamba2", R"({"n_groups": 2})"}, {"groups that divide the heads", "found 2"}},
      {{"mamba2", R"({"num_heads": 4})"}, {"num_heads", "expand * hidden_size / head_dim"}},
      {{"mamba2", R"({"time_step_limit": [1, 0.5]})"}, {"time_step_limit", "the smaller number first"}},
      {{"mamba2", R"({"time_step_limit": [0, "inf"]})"}, {"time_step_limit", "may be infinite", "inf"}},
      {{"falcon-h1", R"({"projectors_bias": true})"}, {"projectors_bias", "expected false"}},
      {{"falcon-h1", R"({"ssm_multipliers": [1, 2]})"}, {"ssm_multipliers", "5 numbers"}},
      {{"granitehybrid", R"({"layer_types": ["mamba", "mamba", "linear", "mamba"]})"}, {"layer_types", "mamba"}},
      {{"nemotron-h", R"({"layers_block_type": ["mamba", "conv"]})"}, {"layers_block_type", "conv"}},
      {{"qwen35", R"({"linear_num_key_heads": 3})"}, {"linear_num_key_heads", "a divisor of the 4 heads"}},
      {{"qwen35", R"({"attention_bias": true})"}, {"attention_bias", "expected false"}},
      {{"qwen3next", R"({"full_attention_interval": 4, "layer_types": ["full_attention"]})"}, {"layer_types", "4"}},
      {{"lfm2", R"({"conv_bias": true})"}, {"conv_bias", "expected false"}},
      {{"llama", R"({"architectures": ["MambaForCausalLM"]})"}, {"class", "MambaForCausalLM", "recurrent states"}},
  };
  for (const auto& [option, says] : cases) {
    SCOPED_TRACE(std::string(option.fixture) + " " + option.patch);
    const Folder folder;
    folder.write("config.json", patched(Fixture(option.fixture).config, option.patch).dump());
    folder.write("model.safetensors", std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
    expect_says(refusal([&] { model::load(formats::open_checkpoint(folder.path())); }), says);
  }
}

TEST(ModelOptions, OfAGgufFileAreRefusedByName) {
  const struct {
    const char *fixture, *key;
    formats::Value value;
    std::initializer_list<std::string_view> says;
  } cases[] = {
      {"llama",
       "general.architecture",
       std::string("mamba"),
       {"does not run the architecture \"mamba\"", "recurrent states", "llama"}},
      {"llama", "llama.ssm.conv_kernel", 4.0f, {"does not know these options", "llama.ssm.conv_kernel = 4"}},
      {"llama", "llama.attn_logit_softcapping", 50.0f, {"does not know these options", "attn_logit_softcapping"}},
      {"llama", "llama.rope.scaling.type", std::string("spiral"), {"rope.scaling.type", "none, linear", "spiral"}},
      {"llama", "llama.block_count", uint32_t{0}, {"block_count", "1 to 4096"}},
      {"llama", "llama.attention.head_count", uint32_t{0}, {"attention.head_count", "from 1 to 4096"}},
      {"llama", "llama.attention.layer_norm_rms_epsilon", std::string("x"), {"layer_norm_rms_epsilon"}},
      {"gptneox", "gptneox.hidden_activation", std::string("relu"), {"hidden_activation", "gelu", "relu"}},
      {"mixtral", "llama.expert_used_count", uint32_t{6}, {"expert_used_count", "1 to 5", "6"}},
      {"llama", "llama.attention.causal", false, {"attention.causal", "expected true", "found false"}},
      {"olmo", "olmo.attention.sliding_window", uint32_t{9}, {"does not know these options", "sliding_window"}},
  };
  for (const auto& [name, key, value, says] : cases) {
    SCOPED_TRACE(std::string(name) + " " + key);
    const Folder folder;
    const Fixture fixture(name);
    fixture.write(folder, fixture.config);
    formats::Checkpoint checkpoint = formats::open_checkpoint(folder.path());
    formats::Metadata metadata = formats::converted_metadata(checkpoint);
    metadata.set(key, value);
    checkpoint.tensors.clear();
    checkpoint.index();
    formats::write_gguf(checkpoint, metadata, std::nullopt, folder.file("m.gguf"));
    expect_says(refusal([&] { model::load(formats::open_checkpoint(folder.file("m.gguf"))); }), says);
  }
}

// By the length of the text, which is known when it is computed: a model whose context is longer has both factors.
TEST(ModelOptions, ALongRopeHasFactorsForShortAndForLongTexts) {
  const Fixture fixture("phi3-longrope");
  const Folder folder;
  fixture.write(folder, fixture.config);
  const auto loaded = [&](uint32_t context) { return model::load(formats::open_checkpoint(folder.path()), {context}); };
  const model::Model within = loaded(16), beyond = loaded(17);
  const auto& shorter = within.layers[0].get<model::Attention>().rope;
  const auto& both = beyond.layers[0].get<model::Attention>().rope;
  EXPECT_EQ(within.short_text, 0u);
  EXPECT_TRUE(shorter.long_radians.empty());
  EXPECT_EQ(beyond.short_text, 16u);
  EXPECT_EQ(both.radians, shorter.radians);
  EXPECT_EQ(both.magnitude, shorter.magnitude);
  ASSERT_EQ(both.long_radians.size(), both.radians.size());
  for (size_t i = 1; i < both.radians.size(); ++i) EXPECT_LT(both.long_radians[i], both.radians[i]);
}

// Within the original context a text has the short factors, whatever the context of the model is.
TEST(ModelOptions, AShortTextOfALongRopeIsThatOfAShortContext) {
  const Fixture fixture("phi3-longrope");
  const Folder folder;
  fixture.write(folder, fixture.config);
  const std::vector<uint32_t> ids(fixture.ids.begin(), fixture.ids.begin() + 16);
  const std::vector<float> whole = Running(folder.path(), 0).all_logits(ids);
  EXPECT_EQ(Running(folder.path(), 16).all_logits(ids), whole);
  const std::vector<float> longer = Running(folder.path(), 0).all_logits(fixture.ids);
  EXPECT_FALSE(std::equal(whole.begin(), whole.end(), longer.begin()));
}

}  // namespace
}  // namespace heddle::test

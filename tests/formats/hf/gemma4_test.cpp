// Names, lists and padding that Gemma 3n and 4 have in GGUF.
#include <gtest/gtest.h>

#include "formats/hf/classes.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

hf::Description described_gemma(const std::string& config) { return hf::describe(parse_json(config, "c"), "c"); }

std::string gemma4_config(const std::string& more) {
  return R"({"architectures": ["Gemma4ForCausalLM"], "hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 3, "head_dim": 2, "global_head_dim": 8,
    "vocab_size_per_layer_input": 3, "layer_types": ["sliding_attention", "full_attention", "full_attention"], )" +
         more + "}";
}

const hf::Wanted* find_wanted(const hf::Description& description, const std::string& name) {
  for (const hf::Wanted& tensor : description.tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}
std::vector<int64_t> integers_of(const hf::Description& description, const char* key) {
  const Array* array = description.metadata.find_array(key);
  return array ? array->integers() : std::vector<int64_t>();
}

TEST(HfGemma4, LayersWithoutAWindowHaveHeadsOfTheirOwn) {
  const auto to = described_gemma(gemma4_config(R"("attention_k_eq_v": true, "num_global_key_value_heads": 1,
    "hidden_size_per_layer_input": 0)"));
  EXPECT_EQ(to.metadata.integer("gemma4.attention.key_length"), 8u);
  EXPECT_EQ(to.metadata.integer("gemma4.attention.key_length_swa"), 2u);
  EXPECT_EQ(to.metadata.integer("gemma4.rope.dimension_count"), 8u);
  EXPECT_EQ(to.metadata.integer("gemma4.rope.dimension_count_swa"), 2u);
  EXPECT_EQ(integers_of(to, "gemma4.attention.head_count_kv"), (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(integers_of(to, "gemma4.attention.sliding_window_pattern"), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(find_wanted(to, "rope_freqs.weight")->values, (std::vector<float>{1, 1e30f, 1e30f, 1e30f}));
  EXPECT_EQ(find_wanted(to, "blk.1.attn_k.weight")->shape, (hf::Shape{4, 8}));
  EXPECT_NE(find_wanted(to, "blk.0.attn_v.weight"), nullptr);
  EXPECT_EQ(find_wanted(to, "blk.1.attn_v.weight"), nullptr);
  EXPECT_EQ(find_wanted(to, "per_layer_token_embd.weight"), nullptr);
  EXPECT_EQ(to.metadata.number("gemma4.final_logit_softcapping"), 0);
}

TEST(HfGemma4, LayersThatShareACacheHaveNoKeys) {
  const auto to = described_gemma(gemma4_config(R"("num_kv_shared_layers": 1, "use_double_wide_mlp": true,
    "hidden_size_per_layer_input": 5)"));
  EXPECT_EQ(to.metadata.integer("gemma4.attention.shared_kv_layers"), 1u);
  EXPECT_EQ(integers_of(to, "gemma4.feed_forward_length"), (std::vector<int64_t>{6, 6, 12}));
  EXPECT_EQ(find_wanted(to, "blk.2.attn_k.weight"), nullptr);
  EXPECT_EQ(find_wanted(to, "blk.2.ffn_up.weight")->shape, (hf::Shape{4, 12}));
  EXPECT_EQ(find_wanted(to, "per_layer_token_embd.weight")->shape, (hf::Shape{15, 3}));
  EXPECT_EQ(find_wanted(to, "blk.2.inp_gate.weight")->sources[0], "model.layers.2.per_layer_input_gate.weight");
  EXPECT_EQ(find_wanted(to, "blk.2.layer_output_scale.weight")->sources[0], "model.layers.2.layer_scalar");
}

TEST(HfGemma4, RefusesOtherRotations) {
  EXPECT_REFUSED(
      described_gemma(gemma4_config(R"("rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2},
    "sliding_attention": {"rope_type": "default"}})")),
      "full_attention", "rope_type: expected one of proportional");
  EXPECT_REFUSED(
      described_gemma(gemma4_config(R"("rope_parameters": {"full_attention": {"rope_type": "proportional"}})")),
      "sliding_attention: expected an object");
}

TEST(HfGemma3n, HasCutoffsAsDeviations) {
  const auto to =
      described_gemma(R"({"architectures": ["Gemma3nForCausalLM"], "hidden_size": 4, "intermediate_size": [6, 7],
    "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 5, "head_dim": 2,
    "num_kv_shared_layers": 0, "vocab_size_per_layer_input": 3, "hidden_size_per_layer_input": 2,
    "activation_sparsity_pattern": [0.95, 0]})");
  const std::vector<double> cutoffs = to.metadata.find_array("gemma3n.activation_sparsity_scale")->numbers();
  EXPECT_NEAR(cutoffs.at(0), 1.6448536, 1e-6);
  EXPECT_EQ(cutoffs.at(1), -INFINITY);
  EXPECT_EQ(integers_of(to, "gemma3n.feed_forward_length"), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(find_wanted(to, "altup_proj.weight")->shape, (hf::Shape{4, 4, 3}));
  EXPECT_EQ(find_wanted(to, "altup_proj.weight")->sources[2], "model.altup_projections.2.weight");
  // Pictures and sound have no inputs: the file ends before their tokens.
  const hf::Wanted& inputs = *find_wanted(to, "per_layer_token_embd.weight");
  EXPECT_EQ(inputs.shape, (hf::Shape{4, 5}));
  EXPECT_EQ(inputs.rows->all, 3u);
}

}  // namespace
}  // namespace heddle::formats

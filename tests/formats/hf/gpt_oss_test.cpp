// gpt-oss: sinks, alternating windows, and experts whose gate and up alternate.
#include <gtest/gtest.h>

#include "formats/hf/bind.h"
#include "tests/formats/hf/described.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/formats/hf/quantized/quantized_fixture.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using Values = std::vector<float>;

// hidden 4, inner 3, one layer, 2 heads of 2, one of k and v, 2 experts, vocabulary 5.
const std::string oss_config = R"({"architectures": ["GptOssForCausalLM"], "hidden_size": 4, "intermediate_size": 3,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "vocab_size": 5,
  "num_local_experts": 2, "num_experts_per_tok": 2, "experts_per_token": 2, "swiglu_limit": 7.0,
  "initial_context_length": 4096, "sliding_window": 16, "rope_theta": 150000, "rope_scaling": {"rope_type": "yarn",
  "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096}})";

HfFiles oss_files(bool transposed) {
  HfFiles files;
  const std::string layer = "model.layers.0.", experts = layer + "mlp.experts.";
  if (transposed)
    files.add(experts + "gate_up_proj", {2, 4, 6}).add(experts + "down_proj", {2, 3, 4});  // 0, 1
  else
    files.add(experts + "gate_up_proj", {2, 6, 4}).add(experts + "down_proj", {2, 4, 3});
  files.add(experts + "gate_up_proj_bias", {2, 6}).add(experts + "down_proj_bias", {2, 4});  // 2, 3
  files.add(layer + "mlp.router.weight", {2, 4}).add(layer + "mlp.router.bias", {2});
  files.add(layer + "self_attn.sinks", {2});  // 6
  for (const char* name : {"q", "k", "v", "o"}) {
    const uint64_t rows = name[0] == 'q' || name[0] == 'o' ? 4 : 2;
    files.add(layer + "self_attn." + name + "_proj.weight", {rows, 4});
    files.add(layer + "self_attn." + name + "_proj.bias", {rows});
  }
  files.add(layer + "input_layernorm.weight", {4}).add(layer + "post_attention_layernorm.weight", {4});
  files.add("model.embed_tokens.weight", {5, 4}).add("lm_head.weight", {5, 4}).add("model.norm.weight", {4});
  return files;
}

TEST(HfGptOss, ExpertsOfSixteenBitsAreTransposedAndTakenApart) {
  const HfFiles files = oss_files(true);
  const Checkpoint model = files.model(oss_config);
  const Tensor& gate = model.tensor("blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(gate.shape, (std::vector<uint64_t>{4, 3, 2}));
  // Row i of expert e is column 2 i of (4, 6).
  EXPECT_EQ(values_of(gate),
            (Values{0, 6, 12, 18, 2, 8, 14, 20, 4, 10, 16, 22, 24, 30, 36, 42, 26, 32, 38, 44, 28, 34, 40, 46}));
  const Values up = values_of(model.tensor("blk.0.ffn_up_exps.weight"));
  EXPECT_EQ(Values(up.begin(), up.begin() + 5), (Values{1, 7, 13, 19, 3}));
  EXPECT_EQ(up.back(), 47);
  const Tensor& down = model.tensor("blk.0.ffn_down_exps.weight");
  EXPECT_EQ(down.shape, (std::vector<uint64_t>{3, 4, 2}));
  const Values values = values_of(down);
  EXPECT_EQ(Values(values.begin(), values.begin() + 4), (Values{1000, 1004, 1008, 1001}));
  EXPECT_EQ(values[12], 1012);
  EXPECT_EQ(model.tensor("blk.0.ffn_gate_exps.bias").shape, (std::vector<uint64_t>{3, 2}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_gate_exps.bias")), (Values{2000, 2002, 2004, 2006, 2008, 2010}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_up_exps.bias")), (Values{2001, 2003, 2005, 2007, 2009, 2011}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_down_exps.bias"))[7], 3007);
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_sinks.weight")), (Values{6000, 6001}));
  EXPECT_EQ(model.tensor("blk.0.ffn_gate_inp.bias").shape, std::vector<uint64_t>{2});
}

TEST(HfGptOss, ExpertsInRowsAreKnownByTheirShape) {
  const HfFiles files = oss_files(false);
  const Checkpoint model = files.model(oss_config);
  const Values gate = values_of(model.tensor("blk.0.ffn_gate_exps.weight"));
  EXPECT_EQ(Values(gate.begin(), gate.begin() + 5), (Values{0, 1, 2, 3, 8}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_up_exps.weight"))[0], 4);
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_down_exps.weight"))[1], 1001);
  EXPECT_REFUSED(oss_files(false).without("model.layers.0.mlp.experts.down_proj").model(oss_config),
                 "1 tensors are missing: model.layers.0.mlp.experts.down_proj");
}

TEST(HfGptOss, ExpertsInMxfp4AreReadAsTheyAre) {
  QuantizedFixture folder("mxfp4");
  folder.unpack();
  auto description = described(R"({"architectures": ["GptOssForCausalLM"], "hidden_size": 64, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 2})");
  std::erase_if(description.tensors, [](const hf::Wanted& one) { return !one.name.ends_with("_exps.weight"); });
  const std::vector<Tensor> bound = hf::bind(description, folder.tensors, folder.unreadable, "folder");
  ASSERT_EQ(bound.size(), 3u);
  for (const Tensor& tensor : bound) {
    EXPECT_EQ(tensor.format, quant::Format::mxfp4);
    const std::string name = "model.layers.0.mlp.experts." + tensor.name.substr(10, tensor.name.size() - 22) + "_proj";
    const auto expected = std::ranges::find(folder.expected, name, &Tensor::name);
    ASSERT_NE(expected, folder.expected.end()) << name;
    EXPECT_EQ(values_of(tensor), values_of(*expected)) << name;
  }
}

TEST(HfGptOss, Keys) {
  const auto model = described(oss_config);
  EXPECT_EQ(model.metadata.integer("gpt-oss.attention.sliding_window"), 16u);
  EXPECT_EQ(model.metadata.find("gpt-oss.attention.sliding_window_pattern"), nullptr);
  EXPECT_EQ(model.metadata.integer("gpt-oss.expert_feed_forward_length"), 3u);
  EXPECT_EQ(model.metadata.string("gpt-oss.rope.scaling.type"), "yarn");
  EXPECT_FALSE(model.metadata.boolean("gpt-oss.rope.scaling.yarn_truncate"));
  const auto types = [](const std::string& list) {
    return described(small_config("GptOssForCausalLM", R"("num_key_value_heads": 1, "layer_types": [)" + list + "]"));
  };
  const auto usual = types(R"("sliding_attention", "full_attention")");
  EXPECT_EQ(usual.metadata.find("gpt-oss.attention.sliding_window_pattern"), nullptr);
  const auto other = types(R"("full_attention", "sliding_attention")");
  const Value* pattern = other.metadata.find("gpt-oss.attention.sliding_window_pattern");
  ASSERT_NE(pattern, nullptr);
  EXPECT_EQ(std::get<Array>(*pattern).integers(), (std::vector<int64_t>{0, 1}));
  EXPECT_REFUSED(types(R"("full_attention")"), "layer_types: expected 2 entries");
  EXPECT_REFUSED(types(R"("full_attention", "chunked_attention")"),
                 "layer_types: expected \"full_attention\" or \"sliding_attention\"");
  EXPECT_REFUSED(described(small_config("GptOssForCausalLM", R"("num_key_value_heads": 1, "attention_bias": false)")),
                 "attention_bias: expected true, found false");
  EXPECT_REFUSED(described(small_config("GptOssForCausalLM", R"("num_key_value_heads": 1, "swiglu_limit": 8.0)")),
                 "swiglu_limit: expected 7.0, found 8.0");
}

}  // namespace
}  // namespace heddle::formats

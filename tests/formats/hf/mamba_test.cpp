// Mamba-2's options, and infinities in config.json, which Python writes in two ways.
#include "formats/hf/mamba.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/formats/hf/described.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

hf::Description mamba(const std::string& more) {
  const std::string text = R"({"architectures": ["Mamba2ForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1,
    "num_heads": 4, "head_dim": 4, "n_groups": 2, "state_size": 3, "vocab_size": 5)" +
                           (more.empty() ? "" : ", " + more) + "}";
  return hf::describe(hf::parse_config(text, "config.json"), "config.json");
}

TEST(HfMamba, InfinityIsReadInBothSpellings) {
  for (const char* limit : {"Infinity", R"({"__float__": "Infinity"})"}) {
    const auto model = mamba(fmt::format(R"("time_step_limit": [0.5, {}])", limit));
    EXPECT_EQ(model.metadata.number("mamba2.ssm.time_step_min"), 0.5);
    EXPECT_EQ(model.metadata.find("mamba2.ssm.time_step_max"), nullptr);
  }
  const Json json = hf::parse_config(R"({"a": "Infinity \" Infinity", "b": [Infinity]})", "config.json");
  EXPECT_EQ(json["a"], "Infinity \" Infinity");
  EXPECT_EQ(json["b"][0]["__float__"], "Infinity");
  EXPECT_REFUSED(mamba(R"("time_step_limit": [Infinity, 1])"), "time_step_limit", "two numbers from 0 on");
  EXPECT_REFUSED(mamba(R"("time_step_limit": [0, NaN])"), "config.json", "no valid JSON");
  EXPECT_REFUSED(mamba(R"("time_step_limit": [0, -Infinity])"), "config.json", "no valid JSON");
}

TEST(HfMamba, TensorsAreThoseOfLlamaCpp) {
  const auto model = mamba("");
  EXPECT_EQ(tensor_of(model, "blk.0.ssm_in.weight").shape, (std::vector<uint64_t>{8, 2 * 16 + 2 * 2 * 3 + 4}));
  EXPECT_EQ(tensor_of(model, "blk.0.ssm_conv1d.weight").shape, (std::vector<uint64_t>{4, 16 + 2 * 2 * 3}));
  EXPECT_EQ(tensor_of(model, "blk.0.ssm_norm.weight").shape, (std::vector<uint64_t>{8, 2}));
  EXPECT_EQ(tensor_of(model, "blk.0.ssm_a").shape, (std::vector<uint64_t>{1, 4}));
  EXPECT_EQ(tensor_of(model, "blk.0.ssm_a").sources[0], "backbone.layers.0.mixer.A_log");
  EXPECT_TRUE(has_tensor(model, "blk.0.ssm_conv1d.bias"));
  EXPECT_FALSE(has_tensor(mamba(R"("use_conv_bias": false)"), "blk.0.ssm_conv1d.bias"));
}

// Models of Granite 4's class without Mamba layers are Granite 3's.
TEST(HfMamba, GraniteWithoutIt) {
  const std::string common = R"("num_key_value_heads": 1, "shared_intermediate_size": 12, "mamba_d_head": 64,
    "layer_types": ["attention", "attention"])";
  const auto granite = [&](const std::string& more) {
    return described(small_config("GraniteMoeHybridForCausalLM", common + ", " + more));
  };
  const auto dense = granite(R"("num_local_experts": 0, "position_embedding_type": "rope")");
  EXPECT_EQ(dense.architecture, "granite");
  EXPECT_EQ(dense.metadata.integer("granite.feed_forward_length"), 12u);
  EXPECT_EQ(tensor_of(dense, "blk.1.ffn_gate.weight").sources[0], "model.layers.1.shared_mlp.input_linear.weight");
  EXPECT_EQ(granite(R"("num_local_experts": 4, "position_embedding_type": "rope")").architecture, "granitemoe");
  EXPECT_REFUSED(granite(R"("num_local_experts": 0)"), "position_embedding_type", "rope in a model without Mamba");
}

}  // namespace
}  // namespace heddle::formats

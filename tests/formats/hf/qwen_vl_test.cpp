// The text of Qwen's models that see pictures.
#include <gtest/gtest.h>

#include "tests/formats/hf/described.h"
#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using Values = std::vector<float>;

TEST(HfQwenVl, OlderConfigsHaveTheTextOutside) {
  const std::string text = R"("hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 3, "rope_theta": 5000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [1, 1]})";
  const std::string rest = R"("architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {"depth": 1},
    "image_token_id": 7, "vision_token_id": 8, "tie_word_embeddings": true)";
  for (const std::string& config :
       {"{" + rest + ", " + text + "}", "{" + rest + R"(, "text_config": {)" + text + "}}"}) {
    const auto model = described(config);
    EXPECT_EQ(model.architecture, "qwen2vl");
    EXPECT_EQ(model.metadata.string("general.architecture"), "qwen2vl");
    EXPECT_EQ(model.metadata.number("qwen2vl.rope.freq_base"), 5000);
    EXPECT_EQ(model.metadata.number("qwen2vl.attention.layer_norm_rms_epsilon"), 1e-5f);
    EXPECT_EQ(std::get<Array>(*model.metadata.find("qwen2vl.rope.dimension_sections")).integers(),
              (std::vector<int64_t>{1, 1, 0, 0}));
    EXPECT_FALSE(has_tensor(model, "output.weight"));
  }
  EXPECT_EQ(described("{" + rest + R"(, "text_config": {"new": 1}})").warnings.size(), 1u);
  EXPECT_REFUSED(described("{" + rest + R"(, "text_config": {"logit_scale": 2}})"), "text_config: options",
                 "logit_scale = 2");
  const auto other = described("{" + rest + R"(, "text_config": {"new": 1}})");
  EXPECT_EQ(other.warnings,
            (std::vector<std::string>{
                "config.json: text_config: options that heddle does not know and does without: new = 1"}));
  EXPECT_TRUE(other.text_only);
  EXPECT_REFUSED(described("{" + rest + R"(, "text_config": 4})"), "text_config: expected an object, found 4");
}

TEST(HfQwenVl, ExpertsMayLieInColumns) {
  const std::string config = R"({"architectures": ["Qwen3VLMoeForConditionalGeneration"],
    "vision_config": {"deepstack_visual_indexes": [1, 2, 3]}, "tie_word_embeddings": true,
    "text_config": {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
    "head_dim": 2, "vocab_size": 3, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 3,
    "rope_scaling": {"mrope_interleaved": true, "mrope_section": [1, 0, 0], "rope_type": "default"}}})";
  for (const bool columns : {false, true}) {
    HfFiles files;
    const std::string layer = "model.language_model.layers.0.", experts = layer + "mlp.experts.";
    if (columns)
      files.add(experts + "gate_up_proj", {2, 4, 6}).add(experts + "down_proj", {2, 3, 4});
    else
      files.add(experts + "gate_up_proj", {2, 6, 4}).add(experts + "down_proj", {2, 4, 3});
    files.add(layer + "mlp.gate.weight", {2, 4});
    for (const char* name : {"q", "k", "v"}) files.add(layer + "self_attn." + name + "_proj.weight", {2, 4});
    files.add(layer + "self_attn.o_proj.weight", {4, 2});
    files.add(layer + "self_attn.q_norm.weight", {2}).add(layer + "self_attn.k_norm.weight", {2});
    files.add(layer + "input_layernorm.weight", {4}).add(layer + "post_attention_layernorm.weight", {4});
    files.add("model.language_model.embed_tokens.weight", {3, 4}).add("model.language_model.norm.weight", {4});
    files.add("model.visual.merger.weight", {4, 4});
    const Checkpoint model = files.model(config);
    EXPECT_EQ(model.metadata.integer("qwen3vlmoe.n_deepstack_layers"), 3u);
    const Values gate = values_of(model.tensor("blk.0.ffn_gate_exps.weight"));
    const Values up = values_of(model.tensor("blk.0.ffn_up_exps.weight"));
    EXPECT_EQ(Values(gate.begin(), gate.begin() + 5), columns ? (Values{0, 6, 12, 18, 1}) : (Values{0, 1, 2, 3, 4}));
    EXPECT_EQ(up[0], columns ? 3 : 12);
    EXPECT_EQ(up[12], columns ? 27 : 36);
    EXPECT_EQ(values_of(model.tensor("blk.0.ffn_down_exps.weight"))[1], columns ? 1004 : 1001);
  }
}

}  // namespace
}  // namespace heddle::formats

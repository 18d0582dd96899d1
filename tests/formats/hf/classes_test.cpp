// Each architecture: the names of its tensors on both sides, and the keys that are its own.
#include "formats/hf/classes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using Values = std::vector<float>;

// hidden 4, inner 6, one layer, 2 heads of 2, one of k and v, vocabulary 3.
std::string config_of(const std::string& class_name, const std::string& more = {}) {
  return R"({"architectures": [")" + class_name + R"("], "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 3,
    "max_position_embeddings": 128, "tie_word_embeddings": false)" +
         (more.empty() ? "" : ", " + more) + "}";
}

hf::Description describe(const std::string& config) { return hf::describe(parse_json(config, "c"), "c"); }

// "attn_q.weight<-self_attn.q_proj.weight" and so on: what the one layer has, sorted.
std::vector<std::string> layer_of(const hf::Description& description, const std::string& file_layer) {
  std::vector<std::string> lines;
  for (const hf::Wanted& wanted : description.tensors) {
    if (!wanted.name.starts_with("blk.0.")) continue;
    const std::string& source = wanted.sources[0];
    EXPECT_TRUE(source.starts_with(file_layer)) << source;
    lines.push_back(wanted.name.substr(6) + "<-" + source.substr(file_layer.size()));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

const hf::Wanted& wanted(const hf::Description& description, const std::string& name) {
  for (const hf::Wanted& tensor : description.tensors)
    if (tensor.name == name) return tensor;
  throw Error("no tensor {}", name);
}

std::vector<std::string> sorted(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  return list;
}

const std::vector<std::string> attention = {
    "attn_q.weight<-self_attn.q_proj.weight", "attn_k.weight<-self_attn.k_proj.weight",
    "attn_v.weight<-self_attn.v_proj.weight", "attn_output.weight<-self_attn.o_proj.weight"};
const std::vector<std::string> gated = {"ffn_gate.weight<-mlp.gate_proj.weight", "ffn_up.weight<-mlp.up_proj.weight",
                                        "ffn_down.weight<-mlp.down_proj.weight"};
const std::vector<std::string> norms = {"attn_norm.weight<-input_layernorm.weight",
                                        "ffn_norm.weight<-post_attention_layernorm.weight"};

std::vector<std::string> all(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> result;
  for (const auto& list : lists) result.insert(result.end(), list.begin(), list.end());
  return sorted(result);
}

TEST(HfPages, MistralHasAWindow) {
  EXPECT_EQ(describe(config_of("MistralForCausalLM")).metadata.integer("llama.attention.sliding_window"), 4096u);
  const char* key = "llama.attention.sliding_window";
  EXPECT_EQ(describe(config_of("MistralForCausalLM", R"("sliding_window": 8)")).metadata.integer(key), 8u);
  EXPECT_EQ(describe(config_of("MistralForCausalLM", R"("sliding_window": null)")).metadata.find(key), nullptr);
  EXPECT_EQ(describe(config_of("MistralForCausalLM", R"("sliding_window": 8, "layer_types": ["full_attention"])"))
                .metadata.find(key),
            nullptr);
  EXPECT_REFUSED(describe(config_of("MistralForCausalLM", R"("layer_types": ["chunked_attention"])")),
                 "layer_types: expected the same in all layers");
}

TEST(HfPages, MixtralStacksItsExperts) {
  HfFiles files;
  files.add("model.embed_tokens.weight", {3, 4}).add("model.norm.weight", {4}).add("lm_head.weight", {3, 4});
  const std::string layer = "model.layers.0.";
  files.add(layer + "input_layernorm.weight", {4}).add(layer + "post_attention_layernorm.weight", {4});
  files.add(layer + "self_attn.q_proj.weight", {4, 4}).add(layer + "self_attn.k_proj.weight", {2, 4});
  files.add(layer + "self_attn.v_proj.weight", {2, 4}).add(layer + "self_attn.o_proj.weight", {4, 4});
  files.add(layer + "block_sparse_moe.gate.weight", {2, 4});  // 9
  HfFiles fused = files;
  for (int e = 0; e < 2; ++e) {  // 10, 11, 12 and 13, 14, 15
    const std::string expert = fmt::format("{}block_sparse_moe.experts.{}.", layer, e);
    files.add(expert + "w1.weight", {6, 4}).add(expert + "w2.weight", {4, 6}).add(expert + "w3.weight", {6, 4});
  }
  const std::string config = config_of("MixtralForCausalLM", R"("num_local_experts": 2)");
  const Checkpoint model = files.model(config);
  EXPECT_EQ(model.metadata.integer("llama.expert_count"), 2u);
  EXPECT_EQ(model.metadata.integer("llama.expert_used_count"), 2u);
  EXPECT_EQ(model.metadata.number("llama.rope.freq_base"), 1e6);
  EXPECT_EQ(model.tensor("blk.0.ffn_gate_inp.weight").shape, (std::vector<uint64_t>{4, 2}));
  const Tensor& gate = model.tensor("blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(gate.shape, (std::vector<uint64_t>{4, 6, 2}));
  EXPECT_EQ(values_of(gate)[23], 10023);
  EXPECT_EQ(values_of(gate)[24], 13000);
  EXPECT_EQ(model.tensor("blk.0.ffn_down_exps.weight").shape, (std::vector<uint64_t>{6, 4, 2}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_down_exps.weight"))[24], 14000);
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_up_exps.weight"))[0], 12000);

  // The same as newer files may have it: experts stacked, gate and up in one.
  fused.add(layer + "mlp.experts.gate_up_proj", {2, 12, 4}).add(layer + "mlp.experts.down_proj", {2, 4, 6});
  const Checkpoint other = fused.model(config);
  const Values gates = values_of(other.tensor("blk.0.ffn_gate_exps.weight"));
  const Values ups = values_of(other.tensor("blk.0.ffn_up_exps.weight"));
  EXPECT_EQ(gates[23], 10023);
  EXPECT_EQ(gates[24], 10048);
  EXPECT_EQ(ups[0], 10024);
  EXPECT_EQ(ups[24], 10072);
  EXPECT_EQ(values_of(other.tensor("blk.0.ffn_down_exps.weight"))[47], 11047);
  EXPECT_REFUSED(files.without(layer + "block_sparse_moe.experts.1.w2.weight").model(config),
                 "1 tensors are missing: model.layers.0.block_sparse_moe.experts.1.w2.weight");
}

TEST(HfPages, Granite) {
  const auto model =
      describe(config_of("GraniteForCausalLM", R"("attention_multiplier": 0.5, "embedding_multiplier": 12,
    "residual_multiplier": 0.25, "logits_scaling": 8)"));
  EXPECT_EQ(model.metadata.number("granite.attention.scale"), 0.5);
  EXPECT_EQ(model.metadata.number("granite.embedding_scale"), 12);
  EXPECT_EQ(model.metadata.number("granite.residual_scale"), 0.25);
  EXPECT_EQ(model.metadata.number("granite.logit_scale"), 8);
  EXPECT_EQ(layer_of(model, "model.layers.0."), all({norms, attention, gated}));
  EXPECT_EQ(wanted(model, "blk.0.attn_q.weight").change.kind, hf::Change::Kind::interleave);
}

TEST(HfPages, SmolLM3LeavesEveryFourthLayerUnturned) {
  const auto of_eight = [](const std::string& options) {
    Json config = parse_json(config_of("SmolLM3ForCausalLM", options), "c");
    config["num_hidden_layers"] = 8u;
    return hf::describe(config, "c");
  };
  const auto model = of_eight(R"("no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0])");
  EXPECT_EQ(model.architecture, "smollm3");
  EXPECT_EQ(model.metadata.number("smollm3.rope.freq_base"), 2e6);
  EXPECT_EQ(layer_of(model, "model.layers.0."), all({norms, attention, gated}));
  EXPECT_EQ(model.metadata.find("smollm3.rope.rotated_layers"), nullptr);
  EXPECT_EQ(of_eight(R"("no_rope_layer_interval": 4)").metadata.find("smollm3.rope.rotated_layers"), nullptr);
  for (const char* options : {R"("no_rope_layers": [1, 1, 0, 1, 1, 0, 1, 1])", R"("no_rope_layer_interval": 3)"}) {
    const auto other = of_eight(options);
    const auto* rotated = other.metadata.find_array("smollm3.rope.rotated_layers");
    ASSERT_NE(rotated, nullptr) << options;
    EXPECT_EQ(rotated->integers(), (std::vector<int64_t>{1, 1, 0, 1, 1, 0, 1, 1})) << options;
  }
  EXPECT_REFUSED(of_eight(R"("no_rope_layers": [1])"), "no_rope_layers: expected 8 entries, found [1]");
}

TEST(HfPages, Gpt2TurnsItsMatricesRound) {
  HfFiles files;
  files.add("wte.weight", {3, 4}).add("wpe.weight", {5, 4}).add("ln_f.weight", {4}).add("ln_f.bias", {4});
  files.add("h.0.attn.c_attn.weight", {4, 12}).add("h.0.attn.c_attn.bias", {12});  // 4
  files.add("h.0.attn.c_proj.weight", {4, 4}).add("h.0.attn.c_proj.bias", {4});
  files.add("h.0.ln_1.weight", {4}).add("h.0.ln_1.bias", {4}).add("h.0.ln_2.weight", {4}).add("h.0.ln_2.bias", {4});
  files.add("h.0.mlp.c_fc.weight", {4, 16}).add("h.0.mlp.c_fc.bias", {16});
  files.add("h.0.mlp.c_proj.weight", {16, 4}, quant::Format::f16).add("h.0.mlp.c_proj.bias", {4});  // 14
  files.add("h.0.attn.bias", {1, 1, 5, 5});  // a mask that the first files carry
  const std::string config = R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 4, "n_head": 2, "n_layer": 1,
    "n_positions": 5, "n_ctx": 5, "vocab_size": 3, "n_inner": null})";
  const Checkpoint model = files.model(config);
  EXPECT_EQ(model.metadata.integer("gpt2.context_length"), 5u);
  EXPECT_EQ(model.metadata.integer("gpt2.feed_forward_length"), 16u);
  EXPECT_EQ(model.metadata.number("gpt2.attention.layer_norm_epsilon"), 1e-5f);
  EXPECT_EQ(model.tensors.size(), 16u);
  EXPECT_EQ(model.tensor("position_embd.weight").shape, (std::vector<uint64_t>{4, 5}));
  const Tensor& qkv = model.tensor("blk.0.attn_qkv.weight");
  EXPECT_EQ(qkv.shape, (std::vector<uint64_t>{4, 12}));
  const Values values = values_of(qkv);
  for (size_t row = 0; row < 12; ++row)
    for (size_t col = 0; col < 4; ++col) EXPECT_EQ(values[row * 4 + col], static_cast<float>(4000 + col * 12 + row));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_up.weight"))[1], 12016);
  EXPECT_EQ(model.tensor("blk.0.ffn_down.weight").format, quant::Format::f16);
  EXPECT_EQ(model.tensor("blk.0.ffn_down.weight").shape, (std::vector<uint64_t>{16, 4}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_down.bias"))[3], 15003);
  EXPECT_REFUSED(describe(R"({"architectures": ["GPT2LMHeadModel"], "scale_attn_by_inverse_layer_idx": true})"),
                 "scale_attn_by_inverse_layer_idx: expected false, found true");
  EXPECT_REFUSED(describe(R"({"architectures": ["GPT2LMHeadModel"], "activation_function": "relu"})"), "\"relu\"");
}

TEST(HfPages, GptNeoXSplitsQkv) {
  HfFiles files;
  const std::string layer = "gpt_neox.layers.0.";
  files.add("gpt_neox.embed_in.weight", {3, 4}).add("embed_out.weight", {3, 4});
  files.add("gpt_neox.final_layer_norm.weight", {4}).add("gpt_neox.final_layer_norm.bias", {4});
  files.add(layer + "attention.query_key_value.weight", {12, 4}).add(layer + "attention.query_key_value.bias", {12});
  files.add(layer + "attention.dense.weight", {4, 4}).add(layer + "attention.dense.bias", {4});
  files.add(layer + "input_layernorm.weight", {4}).add(layer + "input_layernorm.bias", {4});
  files.add(layer + "post_attention_layernorm.weight", {4}).add(layer + "post_attention_layernorm.bias", {4});
  files.add(layer + "mlp.dense_h_to_4h.weight", {6, 4}).add(layer + "mlp.dense_h_to_4h.bias", {6});
  files.add(layer + "mlp.dense_4h_to_h.weight", {4, 6}).add(layer + "mlp.dense_4h_to_h.bias", {4});
  files.add(layer + "attention.masked_bias", {1}).add(layer + "attention.bias", {1, 1, 2, 2});
  const std::string config = R"({"architectures": ["GPTNeoXForCausalLM"], "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 3, "rotary_pct": 1.0, "rotary_emb_base": 20000,
    "layer_norm_eps": 1e-3, "use_parallel_residual": false})";
  const Checkpoint model = files.model(config);
  EXPECT_EQ(model.metadata.integer("gptneox.rope.dimension_count"), 2u);
  EXPECT_EQ(model.metadata.number("gptneox.rope.freq_base"), 20000);
  EXPECT_EQ(model.metadata.number("gptneox.attention.layer_norm_epsilon"), 1e-3f);
  EXPECT_FALSE(model.metadata.boolean("gptneox.use_parallel_residual"));
  // Rows of the file: q0 q0 k0 k0 v0 v0 q1 q1 k1 k1 v1 v1.
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_qkv.bias")),
            (Values{5000, 5001, 5006, 5007, 5002, 5003, 5008, 5009, 5004, 5005, 5010, 5011}));
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_qkv.weight"))[8], 4024);
  EXPECT_EQ(model.tensors.size(), 16u);
  EXPECT_EQ(describe(R"({"architectures": ["GPTNeoXForCausalLM"], "rope_parameters": {"partial_rotary_factor": 0.5}})")
                .metadata.integer("gptneox.rope.dimension_count"),
            48u);
}

TEST(HfPages, Qwen2And3) {
  const std::vector<std::string> biases = {"attn_q.bias<-self_attn.q_proj.bias", "attn_k.bias<-self_attn.k_proj.bias",
                                           "attn_v.bias<-self_attn.v_proj.bias"};
  const std::vector<std::string> head_norms = {"attn_q_norm.weight<-self_attn.q_norm.weight",
                                               "attn_k_norm.weight<-self_attn.k_norm.weight"};
  const auto two = describe(config_of("Qwen2ForCausalLM"));
  EXPECT_EQ(layer_of(two, "model.layers.0."), all({norms, attention, biases, gated}));
  EXPECT_EQ(wanted(two, "blk.0.attn_q.weight").change.kind, hf::Change::Kind::none);
  const auto three = describe(config_of("Qwen3ForCausalLM"));
  EXPECT_EQ(layer_of(three, "model.layers.0."), all({norms, attention, head_norms, gated}));
  EXPECT_EQ(three.metadata.integer("qwen3.attention.key_length"), 128u);
  EXPECT_EQ(wanted(three, "blk.0.attn_k_norm.weight").shape, std::vector<uint64_t>{128});
  const char* key = "qwen2.attention.sliding_window";
  const auto slides = describe(config_of("Qwen2ForCausalLM", R"("use_sliding_window": true, "max_window_layers": 0)"));
  EXPECT_EQ(slides.metadata.integer(key), 4096u);
  EXPECT_EQ(slides.metadata.find("qwen2.attention.sliding_window_pattern"), nullptr);
  for (const char* none : {R"("use_sliding_window": true, "max_window_layers": 1)", R"("sliding_window": 8)",
                           R"("use_sliding_window": true, "layer_types": ["full_attention"])"})
    EXPECT_EQ(describe(config_of("Qwen2ForCausalLM", none)).metadata.find(key), nullptr) << none;
  EXPECT_REFUSED(describe(config_of("Qwen3ForCausalLM", R"("layer_types": ["sliding_attention"])")),
                 "layer_types: expected \"full_attention\" in all layers");
}

TEST(HfPages, QwenMixtures) {
  const auto two = describe(config_of("Qwen2MoeForCausalLM", R"("num_experts": 3, "moe_intermediate_size": 5,
    "shared_expert_intermediate_size": 7)"));
  EXPECT_EQ(two.metadata.integer("qwen2moe.expert_count"), 3u);
  EXPECT_EQ(two.metadata.integer("qwen2moe.expert_used_count"), 4u);
  EXPECT_EQ(two.metadata.integer("qwen2moe.expert_feed_forward_length"), 5u);
  EXPECT_EQ(two.metadata.integer("qwen2moe.expert_shared_feed_forward_length"), 7u);
  EXPECT_EQ(wanted(two, "blk.0.ffn_gate_inp_shexp.weight").shape, std::vector<uint64_t>{4});
  EXPECT_EQ(wanted(two, "blk.0.ffn_down_shexp.weight").sources[0], "model.layers.0.mlp.shared_expert.down_proj.weight");
  const auto three = describe(config_of("Qwen3MoeForCausalLM", R"("num_local_experts": 3, "norm_topk_prob": true,
    "moe_intermediate_size": 5, "head_dim": 2)"));
  const hf::Wanted& up = wanted(three, "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(up.shape, (std::vector<uint64_t>{4, 5, 3}));
  EXPECT_EQ(up.sources[2], "model.layers.0.mlp.experts.2.up_proj.weight");
}

TEST(HfPages, QwenMixturesSayWhatIsNotUsual) {
  const auto norm = [](const std::string& class_name, const std::string& more) {
    const auto model = describe(config_of(class_name, R"("num_experts": 3)" + more));
    const auto* value = model.metadata.find(model.architecture + ".expert_weights_norm");
    return value ? std::get<bool>(*value) ? "yes" : "no" : "as usual";
  };
  EXPECT_STREQ(norm("Qwen3MoeForCausalLM", ""), "no");
  EXPECT_STREQ(norm("Qwen3MoeForCausalLM", R"(, "norm_topk_prob": true)"), "as usual");
  EXPECT_STREQ(norm("Qwen2MoeForCausalLM", ""), "as usual");
  EXPECT_STREQ(norm("Qwen2MoeForCausalLM", R"(, "norm_topk_prob": true)"), "yes");

  const auto dense = describe(config_of("Qwen2MoeForCausalLM", R"("num_experts": 3, "mlp_only_layers": [0])"));
  EXPECT_EQ(wanted(dense, "blk.0.ffn_gate.weight").shape, (std::vector<uint64_t>{4, 6}));
  EXPECT_THROW(wanted(dense, "blk.0.ffn_gate_inp.weight"), Error);
  const auto step = describe(config_of("Qwen3MoeForCausalLM", R"("num_experts": 3, "decoder_sparse_step": 2)"));
  EXPECT_THROW(wanted(step, "blk.0.ffn_gate_inp.weight"), Error);
  const auto biased = describe(config_of("Qwen3MoeForCausalLM", R"("num_experts": 3, "attention_bias": true)"));
  EXPECT_EQ(wanted(biased, "blk.0.attn_output.bias").shape, std::vector<uint64_t>{4});
  EXPECT_THROW(wanted(describe(config_of("Qwen2MoeForCausalLM", R"("qkv_bias": false)")), "blk.0.attn_q.bias"), Error);
  EXPECT_REFUSED(describe(config_of("Qwen2MoeForCausalLM", R"("mlp_only_layers": [1])")),
                 "mlp_only_layers: expected numbers of layers, from 0 to 0");
}

TEST(HfPages, Phi2HasBiasesEverywhere) {
  const auto model = describe(R"({"architectures": ["PhiForCausalLM"], "hidden_size": 8, "num_attention_heads": 2,
    "intermediate_size": 6, "num_hidden_layers": 1, "vocab_size": 3})");
  EXPECT_EQ(model.metadata.integer("phi2.rope.dimension_count"), 2u);
  EXPECT_EQ(model.metadata.integer("phi2.attention.head_count_kv"), 2u);
  std::vector<std::string> expected;
  for (const std::string end : {"weight", "bias"})
    for (const auto& [name, source] :
         std::vector<std::pair<std::string, std::string>>{{"attn_norm", "input_layernorm"},
                                                          {"attn_q", "self_attn.q_proj"},
                                                          {"attn_k", "self_attn.k_proj"},
                                                          {"attn_v", "self_attn.v_proj"},
                                                          {"attn_output", "self_attn.dense"},
                                                          {"ffn_up", "mlp.fc1"},
                                                          {"ffn_down", "mlp.fc2"}})
      expected.push_back(name + "." + end + "<-" + source + "." + end);
  EXPECT_EQ(layer_of(model, "model.layers.0."), sorted(expected));
  EXPECT_EQ(wanted(model, "output.bias").sources[0], "lm_head.bias");
  EXPECT_EQ(wanted(model, "output_norm.bias").sources[0], "model.final_layernorm.bias");
  EXPECT_REFUSED(describe(R"({"architectures": ["PhiForCausalLM"], "qk_layernorm": true})"), "qk_layernorm");
}

TEST(HfPages, Phi3) {
  const auto model = describe(config_of("Phi3ForCausalLM", R"("sliding_window": null)"));
  EXPECT_EQ(model.metadata.integer("phi3.attention.sliding_window"), 0u);
  EXPECT_EQ(model.metadata.integer("phi3.rope.scaling.original_context_length"), 4096u);
  EXPECT_EQ(wanted(model, "blk.0.attn_qkv.weight").shape, (std::vector<uint64_t>{4, 8}));
  EXPECT_EQ(wanted(model, "blk.0.ffn_up.weight").shape, (std::vector<uint64_t>{4, 12}));
  EXPECT_EQ(layer_of(model, "model.layers.0."),
            all({norms,
                 {"attn_qkv.weight<-self_attn.qkv_proj.weight", "attn_output.weight<-self_attn.o_proj.weight",
                  "ffn_up.weight<-mlp.gate_up_proj.weight", "ffn_down.weight<-mlp.down_proj.weight"}}));

  const auto longer = describe(config_of("Phi3ForCausalLM", R"("original_max_position_embeddings": 32,
    "sliding_window": 7, "rope_scaling": {"type": "su", "long_factor": [2.0], "short_factor": [1.5]})"));
  EXPECT_EQ(longer.metadata.integer("phi3.attention.sliding_window"), 7u);
  EXPECT_NEAR(longer.metadata.number("phi3.rope.scaling.attn_factor"), std::sqrt(1 + std::log(4.0) / std::log(32.0)),
              1e-6);
  EXPECT_EQ(wanted(longer, "rope_factors_long.weight").values, Values{2});
  EXPECT_EQ(wanted(longer, "rope_factors_short.weight").values, Values{1.5});
  EXPECT_REFUSED(
      describe(config_of("Phi3ForCausalLM",
                         R"("rope_scaling": {"type": "longrope", "long_factor": [2, 3], "short_factor": [1, 1]})")),
      "long_factor: expected 1 numbers", "found 2");
}

TEST(HfPages, FilesOfPhi4Mini) {
  const auto model = describe(config_of("Phi3ForCausalLM", R"("full_attn_mod": 1, "interpolate_factor": 1,
    "lm_head_bias": false, "attention_bias": true, "sliding_window": 262144)"));
  EXPECT_TRUE(model.warnings.empty());
}

TEST(HfPages, FalconsThatAreNotSideBySideAreRefused) {
  const auto falcon = [](const std::string& more) {
    return describe(R"({"architectures": ["FalconForCausalLM"], "hidden_size": 8, "num_attention_heads": 4,
      "num_hidden_layers": 1, "vocab_size": 3)" +
                    more + "}");
  };
  EXPECT_EQ(falcon("").metadata.integer("falcon.attention.head_count_kv"), 1u);
  EXPECT_EQ(falcon(R"(, "multi_query": false)").metadata.integer("falcon.attention.head_count_kv"), 4u);
  EXPECT_EQ(falcon(R"(, "new_decoder_architecture": true, "num_kv_heads": 2)")
                .metadata.integer("falcon.attention.head_count_kv"),
            2u);
  EXPECT_REFUSED(falcon(R"(, "alibi": true)"), "alibi: expected false, found true");
  EXPECT_REFUSED(falcon(R"(, "parallel_attn": false)"), "parallel_attn: expected true, found false");
  EXPECT_REFUSED(falcon(R"(, "bias": true)"), "bias: expected false, found true");
  EXPECT_REFUSED(falcon(R"(, "new_decoder_architecture": true, "num_kv_heads": 3)"),
                 "num_kv_heads: expected a divisor of the attention heads, found 3");
}

TEST(HfPages, StableLmsNormsAreBounded) {
  EXPECT_REFUSED(describe(R"({"architectures": ["StableLmForCausalLM"], "qk_layernorm": true, "hidden_size": 1048576,
    "num_attention_heads": 1048576, "num_key_value_heads": 1})"),
                 "num_attention_heads: expected at most 1000000 in all 32 layers, found 1048576");
  const auto old = describe(R"({"architectures": ["StableLMEpochForCausalLM"], "num_hidden_layers": 1,
    "rope_pct": 0.5, "norm_eps": 1e-4, "rotary_scaling_factor": 1.0})");
  EXPECT_EQ(old.metadata.integer("stablelm.rope.dimension_count"), 40u);
  EXPECT_EQ(old.metadata.number("stablelm.attention.layer_norm_epsilon"), 1e-4f);
  EXPECT_TRUE(old.warnings.empty());
}

TEST(HfPages, Exaone4SaysItsWindowsInLetters) {
  const auto exaone = [](const std::string& more) {
    return describe(R"({"architectures": ["Exaone4ForCausalLM"], "num_hidden_layers": 6, )" + more + "}");
  };
  const char* key = "exaone4.attention.sliding_window_pattern";
  EXPECT_EQ(exaone(R"("sliding_window_pattern": "LLLG", "sliding_window": 8)").metadata.find(key), nullptr);
  EXPECT_EQ(exaone(R"("sliding_window_pattern": "LG", "sliding_window": 8)").metadata.integer(key), 2u);
  EXPECT_EQ(exaone(R"("sliding_window_pattern": "GLL", "sliding_window": 8)").metadata.array(key).integers(),
            (std::vector<int64_t>{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(exaone(R"("sliding_window": null, "sliding_window_pattern": 0)")
                .metadata.find("exaone4.attention.sliding_window"),
            nullptr);
  EXPECT_REFUSED(exaone(R"("sliding_window_pattern": "LX")"), "sliding_window_pattern: expected a number, or");
}

TEST(HfPages, MistralsWithImages) {
  const auto model = describe(R"({"architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10,
    "vision_config": {"hidden_size": 8}, "text_config": {"model_type": "mistral", "num_hidden_layers": 1,
    "hidden_size": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "sliding_window": null}})");
  EXPECT_EQ(model.architecture, "mistral3");
  EXPECT_TRUE(model.text_only);
  EXPECT_EQ(wanted(model, "output.weight").otherwise, "model.embed_tokens.weight");
  EXPECT_REFUSED(describe(R"({"architectures": ["Mistral3ForConditionalGeneration"],
    "text_config": {"model_type": "qwen2"}})"),
                 "text_config: model_type: expected \"mistral\" or \"ministral3\", found \"qwen2\"");
  EXPECT_REFUSED(describe(R"({"architectures": ["Ministral3ForCausalLM"], "num_hidden_layers": 1,
    "rope_parameters": {"rope_type": "default", "llama_4_scaling_beta": 0.1}})"),
                 "llama_4_scaling_beta: expected with rope_type \"yarn\" only");
}

TEST(HfPages, LlavasOfAnyTextModel) {
  const auto llava = [](const std::string& text, const std::string& more = {}) {
    return describe(R"({"architectures": ["LlavaForConditionalGeneration"], "vision_config": {"hidden_size": 8},
      "image_token_index": 10, "ignore_index": -100, "vocab_size": 3, "text_config": {"num_hidden_layers": 1)" +
                    text + "}" + more + "}");
  };
  EXPECT_EQ(llava("").architecture, "llama");
  EXPECT_TRUE(llava("").warnings.empty());
  EXPECT_EQ(llava(R"(, "model_type": "qwen2")").architecture, "qwen2");
  EXPECT_EQ(wanted(llava(""), "output.weight").otherwise, "model.embed_tokens.weight");
  EXPECT_EQ(wanted(llava(R"(, "tie_word_embeddings": true)", R"(, "tie_word_embeddings": false)"), "output.weight")
                .sources[0],
            "lm_head.weight");
  EXPECT_REFUSED(llava(R"(, "model_type": "mamba")"), "text_config: model_type: expected one of llama, mistral, ",
                 "found \"mamba\"");
  EXPECT_REFUSED(llava(R"(, "sliding_window": 4)"), "text_config: options that change the result",
                 "sliding_window = 4");
}

TEST(HfPages, Cohere2HasAWindow) {
  const auto model = describe(R"({"architectures": ["Cohere2ForCausalLM"], "num_hidden_layers": 1,
    "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj", "rotary_pct": 1.0,
    "use_embedding_sharing": true, "use_gated_activation": true, "use_parallel_block": true,
    "use_parallel_embedding": true, "use_qk_norm": false, "sliding_window_pattern": 4})");
  EXPECT_TRUE(model.warnings.empty());
  EXPECT_EQ(model.metadata.integer("cohere2.attention.sliding_window"), 4096u);
  EXPECT_REFUSED(describe(R"({"architectures": ["Cohere2ForCausalLM"], "sliding_window": null})"),
                 "sliding_window: expected a number, found null");
}

TEST(HfPages, MptsWithoutAlibiAreRefused) {
  const auto mpt = [](const std::string& attention) {
    return describe(R"({"architectures": ["MPTForCausalLM"], "n_layers": 1, "attn_config": {)" + attention + "}}");
  };
  EXPECT_EQ(mpt(R"("alibi_bias_max": 16)").metadata.number("mpt.attention.max_alibi_bias"), 16);
  EXPECT_REFUSED(mpt(R"("alibi": false)"), "attn_config: alibi: expected true, found false");
  EXPECT_REFUSED(mpt(R"("clip_qkv": -1)"), "attn_config: clip_qkv: expected null, or a number above 0, found -1");
}

TEST(HfPages, InternLM2SplitsQkvByGroups) {
  HfFiles files;
  files.add("model.tok_embeddings.weight", {3, 8}).add("model.norm.weight", {8}).add("output.weight", {3, 8});
  const std::string layer = "model.layers.0.";
  files.add(layer + "attention.wqkv.weight", {16, 8});  // 3: two groups of two heads of q, one of k, one of v, of 2
  files.add(layer + "attention.wo.weight", {8, 8}).add(layer + "attention_norm.weight", {8});
  files.add(layer + "ffn_norm.weight", {8}).add(layer + "feed_forward.w1.weight", {6, 8});
  files.add(layer + "feed_forward.w2.weight", {8, 6}).add(layer + "feed_forward.w3.weight", {6, 8});
  const Checkpoint model = files.model(R"({"architectures": ["InternLM2ForCausalLM"], "hidden_size": 8,
    "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 3, "bias": false, "attn_implementation": "eager"})");
  const auto rows = [&](const char* name) {
    Values first;
    const Values values = values_of(model.tensor(name));
    for (size_t row = 0; row < values.size() / 8; ++row) first.push_back((values[row * 8] - 3000) / 8);
    return first;
  };
  EXPECT_EQ(rows("blk.0.attn_q.weight"), (Values{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(rows("blk.0.attn_k.weight"), (Values{4, 5, 12, 13}));
  EXPECT_EQ(rows("blk.0.attn_v.weight"), (Values{6, 7, 14, 15}));
}

TEST(HfPages, GemmasNormsGetTheirOne) {
  HfFiles files;
  const std::string layer = "model.layers.0.";
  files.add("model.embed_tokens.weight", {3, 4}).add("model.norm.weight", {4}, quant::Format::bf16);
  files.add(layer + "self_attn.q_proj.weight", {4, 4}).add(layer + "self_attn.k_proj.weight", {2, 4});
  files.add(layer + "self_attn.v_proj.weight", {2, 4}).add(layer + "self_attn.o_proj.weight", {4, 4});
  files.add(layer + "mlp.gate_proj.weight", {6, 4}).add(layer + "mlp.up_proj.weight", {6, 4});
  files.add(layer + "mlp.down_proj.weight", {4, 6});
  files.add(layer + "input_layernorm.weight", {4}).add(layer + "post_attention_layernorm.weight", {4});  // 9, 10
  files.add(layer + "pre_feedforward_layernorm.weight", {4}).add(layer + "post_feedforward_layernorm.weight", {4});
  const std::string sizes = R"("hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "vocab_size": 3, "query_pre_attn_scalar": 2)";
  const Checkpoint two = files.model(R"({"architectures": ["Gemma2ForCausalLM"], )" + sizes + "}");
  EXPECT_EQ(two.metadata.number("gemma2.attn_logit_softcapping"), 50);
  EXPECT_EQ(two.metadata.number("gemma2.final_logit_softcapping"), 30);
  EXPECT_EQ(two.metadata.integer("gemma2.attention.sliding_window"), 4096u);
  EXPECT_EQ(two.tensor("output_norm.weight").format, quant::Format::f32);
  EXPECT_EQ(values_of(two.tensor("output_norm.weight"))[0], 1001);
  EXPECT_EQ(values_of(two.tensor("blk.0.attn_norm.weight"))[3], 9004);
  EXPECT_EQ(values_of(two.tensor("blk.0.post_attention_norm.weight"))[0], 10001);
  EXPECT_EQ(values_of(two.tensor("blk.0.ffn_norm.weight"))[0], 11001);
  EXPECT_EQ(values_of(two.tensor("blk.0.post_ffw_norm.weight"))[0], 12001);
  EXPECT_EQ(two.find("output.weight"), nullptr);
  EXPECT_REFUSED(files.model(R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": true, )" + sizes + "}"),
                 "attention_bias");

  files.add(layer + "self_attn.q_norm.weight", {2}).add(layer + "self_attn.k_norm.weight", {2});
  const Checkpoint three = files.model(R"({"architectures": ["Gemma3ForCausalLM"], )" + sizes + "}");
  EXPECT_EQ(values_of(three.tensor("blk.0.attn_k_norm.weight")), (Values{14001, 14002}));
  EXPECT_EQ(three.metadata.number("gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(three.metadata.number("gemma3.rope.freq_base_swa"), 10000);
}

TEST(HfPages, Gemma3Layers) {
  const auto with = [](const std::string& more) {
    return describe(R"({"architectures": ["Gemma3ForCausalLM"], "hidden_size": 4, "num_hidden_layers": 4, )" + more +
                    "}");
  };
  const auto model = with(R"("rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0,
    "rope_theta": 3e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}, "rope_theta": null})");
  EXPECT_EQ(model.metadata.string("gemma3.rope.scaling.type"), "linear");
  EXPECT_EQ(model.metadata.number("gemma3.rope.freq_base"), 3e6);
  EXPECT_EQ(model.metadata.number("gemma3.rope.freq_base_swa"), 500);
  EXPECT_EQ(model.metadata.find("gemma3.attention.sliding_window_pattern"), nullptr);
  const auto old = with(R"("rope_theta": 2e6, "rope_local_base_freq": 700.0, "rope_scaling": {"rope_type": "linear",
    "factor": 8.0})");
  EXPECT_EQ(old.metadata.number("gemma3.rope.scaling.factor"), 8);
  EXPECT_EQ(old.metadata.number("gemma3.rope.freq_base_swa"), 700);
  EXPECT_EQ(with(R"("layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])")
                .metadata.integer("gemma3.attention.sliding_window_pattern"),
            2u);
  EXPECT_EQ(with(R"("sliding_window_pattern": 1)").metadata.find("gemma3.attention.sliding_window"), nullptr);
  const auto irregular =
      with(R"("layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])");
  EXPECT_EQ(irregular.metadata.array("gemma3.attention.sliding_window_pattern").integers(),
            (std::vector<int64_t>{1, 0, 0, 0}));
  EXPECT_REFUSED(
      with(R"("layer_types": ["sliding_attention", "chunked_attention", "full_attention", "full_attention"])"),
      "layer_types: expected");
  EXPECT_REFUSED(with(R"("layer_types": ["full_attention"])"), "layer_types: expected 4 entries");
  EXPECT_EQ(model.metadata.find("gemma3.attention.scale"), nullptr);
  EXPECT_NEAR(with(R"("query_pre_attn_scalar": 100)").metadata.number("gemma3.attention.scale"), 0.1, 1e-7);
  EXPECT_REFUSED(with(R"("query_pre_attn_scalar": 0)"), "query_pre_attn_scalar: expected a number above 0, found 0");
  EXPECT_REFUSED(with(R"("attn_logit_softcapping": 50.0)"), "attn_logit_softcapping: expected null");
  EXPECT_REFUSED(with(R"("use_bidirectional_attention": true)"), "use_bidirectional_attention");
}

TEST(HfPages, Gemma3WithImagesGivesItsText) {
  const auto model = describe(R"({"architectures": ["Gemma3ForConditionalGeneration"], "image_token_index": 262144,
    "vision_config": {"hidden_size": 8}, "text_config": {"hidden_size": 4, "num_hidden_layers": 1}})");
  EXPECT_EQ(model.metadata.integer("gemma3.vocab_size"), 262208u);
  EXPECT_EQ(model.prefixes.size(), 2u);
  EXPECT_REFUSED(describe(R"({"architectures": ["Gemma3ForConditionalGeneration"]})"),
                 "text_config: expected an object");
  EXPECT_TRUE(model.text_only);
  EXPECT_EQ(describe(R"({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"new": 1}})").warnings,
            std::vector<std::string>{"c: text_config: options that heddle does not know and does without: new = 1"});
}

TEST(HfPages, Olmo2HasNormsBehindOnly) {
  const auto model = describe(config_of("Olmo2ForCausalLM"));
  EXPECT_EQ(layer_of(model, "model.layers.0."),
            all({attention,
                 gated,
                 {"attn_q_norm.weight<-self_attn.q_norm.weight", "attn_k_norm.weight<-self_attn.k_norm.weight",
                  "post_attention_norm.weight<-post_attention_layernorm.weight",
                  "post_ffw_norm.weight<-post_feedforward_layernorm.weight"}}));
  EXPECT_EQ(wanted(model, "blk.0.attn_k_norm.weight").shape, std::vector<uint64_t>{2});
  EXPECT_EQ(model.metadata.number("olmo2.attention.layer_norm_rms_epsilon"), 1e-5f);
  // llama.cpp wants an output also where it is the embedding.
  Json tied = parse_json(config_of("Olmo2ForCausalLM"), "c");
  tied["tie_word_embeddings"] = true;
  EXPECT_EQ(wanted(describe(tied.dump()), "output.weight").sources[0], "model.embed_tokens.weight");
}

}  // namespace
}  // namespace heddle::formats

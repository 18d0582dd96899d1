// What all classes share: tensors bound to their names, rows put in order, and options that must not go unnoticed.
#include "formats/hf.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/formats/hf/hf_files.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using Values = std::vector<float>;

TEST(Hf, LlamaInGgufsTerms) {
  const HfFiles files = tiny_llama();
  const Checkpoint model = files.model(tiny_llama_config(R"("rms_norm_eps": 1e-5, "rope_theta": 500.0)"));
  EXPECT_TRUE(model.unknown_class.empty());
  EXPECT_EQ(model.architecture(), "llama");
  const Metadata& metadata = model.metadata;
  EXPECT_EQ(metadata.string("general.name"), "folder");
  EXPECT_EQ(metadata.integer("llama.block_count"), 1u);
  EXPECT_EQ(metadata.integer("llama.context_length"), 128u);
  EXPECT_EQ(metadata.integer("llama.embedding_length"), 4u);
  EXPECT_EQ(metadata.integer("llama.feed_forward_length"), 6u);
  EXPECT_EQ(metadata.integer("llama.attention.head_count"), 2u);
  EXPECT_EQ(metadata.integer("llama.attention.head_count_kv"), 1u);
  EXPECT_EQ(metadata.integer("llama.attention.key_length"), 4u);
  EXPECT_EQ(metadata.integer("llama.attention.value_length"), 4u);
  EXPECT_EQ(metadata.integer("llama.rope.dimension_count"), 4u);
  EXPECT_EQ(metadata.integer("llama.vocab_size"), 3u);
  EXPECT_EQ(metadata.number("llama.attention.layer_norm_rms_epsilon"), 1e-5f);
  EXPECT_EQ(metadata.number("llama.rope.freq_base"), 500);
  EXPECT_EQ(metadata.find("llama.rope.scaling.type"), nullptr);
  EXPECT_EQ(metadata.find("llama.attention.sliding_window"), nullptr);

  ASSERT_EQ(model.tensors.size(), 12u);
  const Tensor& embedding = model.tensor("token_embd.weight");
  EXPECT_EQ(embedding.shape, (std::vector<uint64_t>{4, 3}));
  EXPECT_EQ(embedding.source, "model.embed_tokens.weight");
  EXPECT_FALSE(embedding.view.empty());
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_v.weight"))[5], 3005);
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_output.weight"))[31], 4031);
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_gate.weight"))[0], 5000);
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_up.weight"))[0], 6000);
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_down.weight"))[0], 7000);
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_norm.weight")), (Values{8000, 8001, 8002, 8003}));
  EXPECT_EQ(values_of(model.tensor("blk.0.ffn_norm.weight"))[0], 9000);
  EXPECT_EQ(values_of(model.tensor("output_norm.weight"))[0], 10000);
  EXPECT_EQ(values_of(model.tensor("output.weight"))[11], 11011);
}

TEST(Hf, RowsOfQAndKAreInterleavedPerHead) {
  const HfFiles files = tiny_llama();
  const Checkpoint model = files.model(tiny_llama_config());
  // A head's rows 0 1 2 3 become 0 2 1 3: the values that are rotated together are neighbours.
  const Tensor& q = model.tensor("blk.0.attn_q.weight");
  EXPECT_TRUE(q.view.empty());
  Values rows;
  const Values values = values_of(q);
  for (size_t row = 0; row < 8; ++row) {
    rows.push_back((values[row * 4] - 1000) / 4);
    for (size_t i = 1; i < 4; ++i) EXPECT_EQ(values[row * 4 + i], values[row * 4] + static_cast<float>(i));
  }
  EXPECT_EQ(rows, (Values{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_k.weight"))[4], 2008);
}

TEST(Hf, BiasesOfQAndKAreInterleavedToo) {
  HfFiles files = tiny_llama();
  const std::string layer = "model.layers.0.self_attn.";
  files.add(layer + "q_proj.bias", {8})
      .add(layer + "k_proj.bias", {4})
      .add(layer + "v_proj.bias", {4})
      .add(layer + "o_proj.bias", {4});
  const Checkpoint model = files.model(tiny_llama_config(R"("attention_bias": true)"));
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_q.bias")),
            (Values{12000, 12002, 12001, 12003, 12004, 12006, 12005, 12007}));
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_k.bias")), (Values{13000, 13002, 13001, 13003}));
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_v.bias")), (Values{14000, 14001, 14002, 14003}));
  EXPECT_EQ(values_of(model.tensor("blk.0.attn_output.bias"))[1], 15001);
}

TEST(Hf, SixteenBitsStaySixteenBits) {
  for (const auto format : {quant::Format::f16, quant::Format::bf16}) {
    const HfFiles files = tiny_llama(format);
    const Checkpoint model = files.model(tiny_llama_config());
    for (const Tensor& tensor : model.tensors) EXPECT_EQ(tensor.format, format) << tensor.name;
    EXPECT_EQ(values_of(model.tensor("blk.0.attn_q.weight"))[4], 1008);
  }
}

TEST(Hf, TiedEmbeddingsHaveNoOutput) {
  HfFiles files = tiny_llama();
  const std::string tied = tiny_llama_config(R"("tie_word_embeddings": true)");
  EXPECT_EQ(files.model(tied).find("output.weight"), nullptr);  // lm_head is in the file, and is the embedding again
  files.without("lm_head.weight");
  EXPECT_EQ(files.model(tied).tensors.size(), 11u);
  EXPECT_REFUSED(files.model(tiny_llama_config()), "folder: 1 tensors are missing: lm_head.weight");
}

TEST(Hf, MissingAndUnexpectedTensorsAreNamed) {
  HfFiles files = tiny_llama();
  files.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});  // a buffer of old files
  EXPECT_EQ(files.model(tiny_llama_config()).tensors.size(), 12u);
  files.add("model.layers.0.self_attn.q_proj.bias", {8});
  files.add("model.layers.1.input_layernorm.weight", {4});
  EXPECT_REFUSED(files.model(tiny_llama_config()), "folder: 2 tensors that are not part of the model: ",
                 "model.layers.0.self_attn.q_proj.bias, model.layers.1.input_layernorm.weight");
  EXPECT_REFUSED(tiny_llama().without("model.norm.weight").without("lm_head.weight").model(tiny_llama_config()),
                 "2 tensors are missing: model.norm.weight, lm_head.weight");
  // With many missing, some are named.
  EXPECT_REFUSED(HfFiles().add("x", {1}).model(tiny_llama_config()), "12 tensors are missing: ", ", ...");
}

TEST(Hf, ShapesAreHeldToTheConfig) {
  HfFiles files = tiny_llama().without("lm_head.weight").add("lm_head.weight", {4, 4});
  EXPECT_REFUSED(files.model(tiny_llama_config()), "folder: tensor lm_head.weight: expected 3 x 4, ", "found 4 x 4");
}

TEST(Hf, OtherNumbersThanFloatsAreRefused) {
  HfFiles files = tiny_llama().without("model.norm.weight");
  EXPECT_REFUSED(files.model(tiny_llama_config(), {{"model.norm.weight", "has the type F8_E4M3"}}),
                 "folder: tensor model.norm.weight has the type F8_E4M3");
  EXPECT_REFUSED(tiny_llama().model(tiny_llama_config(), {{"scale_inv", "has the type F8_E4M3"}}),
                 "not part of the model: scale_inv");
  const HfFiles whole = tiny_llama();
  EXPECT_TRUE(whole.model(tiny_llama_config(), {{"a.rotary_emb.inv_freq", "has no values"}}).unreadable.empty());
}

TEST(Hf, UnknownClassesStayAsTheyAre) {
  const HfFiles files = tiny_llama();
  const Checkpoint model = files.model(tiny_llama_config("", "MambaModel"));
  EXPECT_EQ(model.unknown_class, "MambaModel");
  EXPECT_EQ(model.metadata.find("general.architecture"), nullptr);
  EXPECT_NE(model.find("model.norm.weight"), nullptr);
  EXPECT_EQ(files.model(R"({"model_type": "rwkv"})").unknown_class, "of type rwkv");
  EXPECT_EQ(files.model("{}").unknown_class, "unnamed");
  EXPECT_REFUSED(files.model("[]"), "folder: config.json: expected an object, found []");
}

TEST(Hf, OptionsThatChangeTheResultAreRefused) {
  const HfFiles files = tiny_llama();
  const auto with = [&](const std::string& more) { return files.model(tiny_llama_config(more)); };
  EXPECT_REFUSED(with(R"("hidden_act": "gelu")"), "folder: config.json: hidden_act: expected \"silu\", found \"gelu\"");
  EXPECT_REFUSED(with(R"("quantization_config": {"bits": 4})"),
                 "folder: config.json: quantization_config: quant_method: expected one of awq, ");
  EXPECT_REFUSED(with(R"("sliding_window": 8, "surprise": 7)"),
                 "folder: config.json: options that change the result and that heddle does not have for this class: ",
                 "sliding_window = 8");
  EXPECT_REFUSED(with(R"("sliding_window": 8, "logit_scale": 2.0)"), "logit_scale = 2.0, sliding_window = 8");
  EXPECT_REFUSED(with(R"("rms_norm_eps": "small")"), "rms_norm_eps: expected a number, found \"small\"");
  EXPECT_REFUSED(with(R"("attention_bias": 1)"), "attention_bias: expected true or false, found 1");
}

TEST(Hf, OptionsThatNobodyKnowsAreNamedInAWarning) {
  const HfFiles files = tiny_llama();
  const auto warnings = [&](const std::string& more) { return files.model(tiny_llama_config(more)).warnings; };
  EXPECT_EQ(warnings(R"("surprise": 7, "another": "x")"),
            std::vector<std::string>{"folder: config.json: options that heddle does not know and does without: "
                                     R"(another = "x", surprise = 7)"});
  for (const char* silent :
       {R"("surprise": false, "another": null, "more": [], "_name_or_path": "x", "torch_dtype": "float16")",
        R"("is_llama_config": true, "rope_interleaved": false, "sliding_window": null)"})
    EXPECT_TRUE(warnings(silent).empty()) << silent;
}

TEST(Hf, SizesThatCannotBeAreRefused) {
  const HfFiles files = tiny_llama();
  const auto with = [&](const std::string& key, const std::string& value) {
    Json config = parse_json(tiny_llama_config(), "c");
    config[key] = parse_json(value, "v");
    return files.model(config.dump());
  };
  for (const char* value : {"0", "-1", "1.5", "\"4\"", "99999999999999999999"})
    EXPECT_REFUSED(with("hidden_size", value), "hidden_size: expected a whole number from 1 to 2^30, found ");
  EXPECT_REFUSED(with("num_hidden_layers", "5000"), "num_hidden_layers: expected at most 4096, found 5000");
  EXPECT_REFUSED(with("num_key_value_heads", "3"), "num_key_value_heads: expected a divisor of the 2 attention heads");
  EXPECT_REFUSED(with("head_dim", "3"), "head_dim: expected an even number, found 3");
}

TEST(Hf, MissingNumbersAreThoseOfTransformers) {
  HfFiles files = tiny_llama();
  Json config = parse_json(tiny_llama_config(), "c");
  config.erase("max_position_embeddings");
  config["num_key_value_heads"] = nullptr;  // then as many as heads: k of the file is too small
  EXPECT_REFUSED(files.model(config.dump()), "k_proj.weight: expected 8 x 4", "found 4 x 4");
  config["num_key_value_heads"] = 1;
  const Checkpoint model = files.model(config.dump());
  EXPECT_EQ(model.metadata.integer("llama.context_length"), 2048u);
  EXPECT_EQ(model.metadata.number("llama.attention.layer_norm_rms_epsilon"), 1e-6f);
  EXPECT_EQ(model.metadata.number("llama.rope.freq_base"), 10000);
}

}  // namespace
}  // namespace heddle::formats

// Which format each tensor gets: the choices of llama.cpp, written down tensor by tensor.
#include "formats/mix.h"

#include <gtest/gtest.h>

#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using quant::Format;
using Shape = std::vector<uint64_t>;

const Shape square = {4096, 4096};

// Llama 3.1 8B: 32 layers, 4 heads per k and v.
const MixModel llama_8b{.layers = 32, .heads = 32, .kv_heads = 8, .experts = 0, .llama = true, .tied = false};

std::string formats(FileType type, const MixModel& model, const std::string& name) {
  std::string list;
  for (uint64_t i = 0; i < model.layers; ++i) {
    const Format format = choose_format(type, model, "blk." + std::to_string(i) + "." + name + ".weight", square);
    list += std::string(quant::name(format)).substr(1, 1);
  }
  return list;
}

TEST(Mix, NamesAndNumbers) {
  EXPECT_EQ(all_file_types().size(), 21u);
  for (FileType type : all_file_types()) EXPECT_EQ(file_type_named(name(type)), type);
  EXPECT_EQ(file_type_named("q4_k_m"), FileType::q4_k_m);
  EXPECT_EQ(gguf_file_type(FileType::q4_k_m), 15u);
  EXPECT_EQ(gguf_file_type(FileType::bf16), 32u);
  EXPECT_EQ(gguf_file_type(FileType::mxfp4), 38u);
  EXPECT_REFUSED(file_type_named("Q9"), "there is no file type \"Q9\"; there are F32, F16, ", "MXFP4");
}

TEST(Mix, FewValuesStayF32) {
  for (FileType type : all_file_types()) {
    EXPECT_EQ(choose_format(type, llama_8b, "blk.0.attn_norm.weight", {4096}), Format::f32);
    EXPECT_EQ(choose_format(type, llama_8b, "blk.0.attn_q.bias", {4096}), Format::f32);
    EXPECT_EQ(choose_format(type, llama_8b, "blk.0.ffn_gate_inp.weight", {4096, 8}), Format::f32);
    EXPECT_EQ(choose_format(type, llama_8b, "position_embd.weight", {768, 1024}), Format::f32);
    EXPECT_EQ(choose_format(type, llama_8b, "blk.0.ffn_gate_inp_shexp.weight", {4096, 1}), Format::f32);
    EXPECT_EQ(choose_format(type, llama_8b, "rope_freqs.weight", {64}), Format::f32);
  }
  EXPECT_FALSE(stays_f32("blk.0.ffn_down_exps.weight", {4096, 14336, 8}));
  EXPECT_FALSE(stays_f32("x.weight", {1, 7}));
}

TEST(Mix, FloatsAreOneFormat) {
  for (const auto& [type, format] : {std::pair(FileType::f32, Format::f32), std::pair(FileType::f16, Format::f16),
                                     std::pair(FileType::bf16, Format::bf16)})
    for (const char* name : {"output.weight", "token_embd.weight", "blk.3.attn_v.weight"})
      EXPECT_EQ(choose_format(type, llama_8b, name, {100, 7}), format);
}

TEST(Mix, OutputIsQ6K) {
  for (const FileType type : {FileType::q4_0, FileType::q2_k, FileType::q4_k_m, FileType::q6_k, FileType::iq4_xs})
    EXPECT_EQ(choose_format(type, llama_8b, "output.weight", square), Format::q6_k) << name(type);
  EXPECT_EQ(choose_format(FileType::q8_0, llama_8b, "output.weight", square), Format::q8_0);
  EXPECT_EQ(choose_format(FileType::q4_k_m, llama_8b, "token_embd.weight", square), Format::q4_k);
  MixModel tied = llama_8b;
  tied.tied = true;
  EXPECT_EQ(choose_format(FileType::q4_k_m, tied, "token_embd.weight", square), Format::q6_k);
}

TEST(Mix, Q4KMGivesSomeLayersMoreBits) {
  const std::string layers = "66664464464464464464464464466666";
  EXPECT_EQ(formats(FileType::q4_k_m, llama_8b, "attn_v"), layers);
  EXPECT_EQ(formats(FileType::q4_k_m, llama_8b, "ffn_down"), layers);
  EXPECT_EQ(formats(FileType::q4_k_m, llama_8b, "attn_qkv"), layers);
  EXPECT_EQ(formats(FileType::q4_k_m, llama_8b, "attn_k"), std::string(32, '4'));
  EXPECT_EQ(formats(FileType::q4_k_m, llama_8b, "ffn_up"), std::string(32, '4'));
  EXPECT_EQ(formats(FileType::q4_k_m, llama_8b, "attn_output"), std::string(32, '4'));
  EXPECT_EQ(formats(FileType::q4_k_s, llama_8b, "attn_v"), "5555" + std::string(28, '4'));
  EXPECT_EQ(formats(FileType::q4_k_s, llama_8b, "ffn_down"), "5555" + std::string(28, '4'));
}

TEST(Mix, FewBits) {
  EXPECT_EQ(formats(FileType::q3_k_m, llama_8b, "attn_v"), "55" + std::string(30, '4'));
  EXPECT_EQ(formats(FileType::q3_k_m, llama_8b, "ffn_down"), "55" + std::string(30, '4'));
  EXPECT_EQ(formats(FileType::q3_k_m, llama_8b, "attn_output"), std::string(32, '4'));
  EXPECT_EQ(formats(FileType::q3_k_l, llama_8b, "attn_output"), std::string(32, '5'));
  EXPECT_EQ(formats(FileType::q3_k_s, llama_8b, "attn_v"), std::string(32, '3'));
  EXPECT_EQ(formats(FileType::q2_k, llama_8b, "attn_v"), std::string(32, '4'));
  EXPECT_EQ(formats(FileType::q2_k, llama_8b, "ffn_down"), std::string(32, '3'));
  EXPECT_EQ(formats(FileType::q2_k_s, llama_8b, "ffn_down"), "4444" + std::string(28, '2'));
  MixModel own_values = llama_8b;
  own_values.kv_heads = 32;
  EXPECT_EQ(formats(FileType::q2_k, own_values, "attn_v"), std::string(32, '3'));
  EXPECT_EQ(formats(FileType::q2_k_s, own_values, "attn_v"), std::string(32, '2'));
}

TEST(Mix, LargeLlamaAndEightExperts) {
  MixModel large{.layers = 80, .heads = 64, .kv_heads = 8, .experts = 0, .llama = true, .tied = false};
  EXPECT_EQ(formats(FileType::q3_k_s, large, "attn_v"), std::string(80, '5'));
  EXPECT_EQ(formats(FileType::q4_k_m, large, "attn_v").find('4'), std::string::npos);
  large.llama = false;
  EXPECT_EQ(formats(FileType::q3_k_s, large, "attn_v"), std::string(80, '3'));
  const MixModel mixtral{.layers = 32, .heads = 32, .kv_heads = 8, .experts = 8, .llama = true, .tied = false};
  EXPECT_EQ(formats(FileType::q4_k_m, mixtral, "attn_v"), std::string(32, '8'));
  EXPECT_EQ(formats(FileType::q4_0, mixtral, "attn_k"), std::string(32, '8'));
  EXPECT_EQ(formats(FileType::q4_k_m, mixtral, "attn_output"), std::string(32, '5'));
  EXPECT_EQ(formats(FileType::q3_k_l, mixtral, "attn_output"), std::string(32, '3'));
}

TEST(Mix, Mxfp4IsForExperts) {
  const MixModel experts{.layers = 4, .heads = 4, .kv_heads = 4, .experts = 4, .llama = false, .tied = false};
  const auto choose = [](const MixModel& model, const char* name, const Shape& shape) {
    return choose_format(FileType::mxfp4, model, name, shape);
  };
  EXPECT_EQ(choose(experts, "blk.0.ffn_down_exps.weight", {64, 64, 4}), Format::mxfp4);
  EXPECT_EQ(choose(experts, "blk.0.attn_q.weight", {64, 64}), Format::q8_0);
  EXPECT_EQ(choose(experts, "token_embd.weight", {64, 64}), Format::q8_0);
  EXPECT_EQ(choose(llama_8b, "blk.0.attn_q.weight", square), Format::mxfp4);
  EXPECT_EQ(choose(llama_8b, "output.weight", square), Format::q8_0);
  EXPECT_EQ(choose(llama_8b, "token_embd.weight", square), Format::q8_0);
}

TEST(Mix, RowsThatDoNotFit) {
  const auto choose = [](FileType type, uint64_t cols) {
    return choose_format(type, llama_8b, "blk.9.attn_q.weight", {cols, 64});
  };
  EXPECT_EQ(choose(FileType::q2_k, 288), Format::q4_0);
  EXPECT_EQ(choose(FileType::q3_k_m, 288), Format::q4_0);
  EXPECT_EQ(choose(FileType::q4_k_m, 288), Format::q5_0);
  EXPECT_EQ(choose(FileType::q5_k_m, 288), Format::q5_1);
  EXPECT_EQ(choose(FileType::q6_k, 288), Format::q8_0);
  EXPECT_EQ(choose(FileType::iq4_xs, 288), Format::iq4_nl);
  for (const FileType type : {FileType::q4_k_m, FileType::q8_0, FileType::q4_0, FileType::mxfp4})
    EXPECT_EQ(choose(type, 172), Format::f16) << name(type);
  EXPECT_EQ(choose_format(FileType::q4_k_m, llama_8b, "output.weight", {288, 64}), Format::q8_0);
  EXPECT_EQ(choose_format(FileType::q4_0, llama_8b, "output.weight", {288, 64}), Format::q8_0);  // q6_k does not fit
}

TEST(Mix, ModelFromMetadata) {
  Metadata metadata;
  metadata.set("general.architecture", std::string("x"));
  metadata.set("x.block_count", uint32_t{7});
  metadata.set("x.attention.head_count", Array::of(std::vector<int32_t>{12, 6}));  // one per layer
  metadata.set("x.attention.head_count_kv", uint32_t{3});
  metadata.set("x.expert_count", uint32_t{8});
  const MixModel model = mix_model(metadata, true);
  EXPECT_EQ(model.layers, 7u);
  EXPECT_EQ(model.heads, 12u);
  EXPECT_EQ(model.kv_heads, 3u);
  EXPECT_EQ(model.experts, 8u);
  EXPECT_FALSE(model.llama);
  EXPECT_TRUE(model.tied);
}

}  // namespace
}  // namespace heddle::formats

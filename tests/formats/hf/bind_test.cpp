// Packed experts under GGUF's names. What all classes bind is tested with them, in hf_test.cpp and tests/model.
#include "formats/hf/bind.h"

#include <gtest/gtest.h>

#include "tests/formats/hf/hf_files.h"
#include "tests/formats/hf/quantized/quantized_fixture.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;

// gate, up and down as gpt-oss has them where they are not packed.
hf::Description experts() {
  hf::Description to("gpt-oss");
  const std::string folder = "model.layers.0.mlp.experts.";
  const auto add = [&](const char* name, const char* source, const hf::Shape& shape, hf::Change::Kind kind) {
    hf::Wanted wanted;
    wanted.name = name;
    wanted.shape = shape;
    wanted.fused = folder + source;
    wanted.fused_change.kind = kind;
    to.tensors.push_back(wanted);
  };
  add("blk.0.ffn_gate_exps.weight", "gate_up_proj", {64, 32, 2}, hf::Change::Kind::first_half);
  add("blk.0.ffn_up_exps.weight", "gate_up_proj", {64, 32, 2}, hf::Change::Kind::second_half);
  add("blk.0.ffn_down_exps.weight", "down_proj", {32, 64, 2}, hf::Change::Kind::transpose);
  return to;
}

TEST(HfBind, ExpertsInMxfp4StayInIt) {
  QuantizedFixture folder("mxfp4");
  folder.unpack();
  const std::vector<Tensor> bound = hf::bind(experts(), folder.tensors, folder.unreadable, "folder");
  ASSERT_EQ(bound.size(), 3u);
  const char* const names[] = {"gate_proj", "up_proj", "down_proj"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(bound[i].format, quant::Format::mxfp4);
    EXPECT_TRUE(bound[i].source.ends_with("_blocks")) << bound[i].source;
    const std::string name = std::string("model.layers.0.mlp.experts.") + names[i];
    const auto expected = std::ranges::find(folder.expected, name, &Tensor::name);
    EXPECT_EQ(values_of(bound[i]), values_of(*expected)) << name;
  }
}

TEST(HfBind, ShapesOfPackedExpertsAreHeldToTheConfig) {
  QuantizedFixture folder("mxfp4");
  folder.unpack();
  hf::Description wrong = experts();
  wrong.tensors[1].shape = {64, 30, 2};
  EXPECT_REFUSED(hf::bind(wrong, folder.tensors, folder.unreadable, "folder"),
                 "tensor model.layers.0.mlp.experts.up_proj: expected 2 x 30 x 64, ", "found 2 x 32 x 64");
}

TEST(HfBind, MissingRowsAreZero) {
  const std::vector<float> values{1, 2, 3, 4};
  Tensor two;
  two.name = "embed.weight";
  two.shape = {2, 2};
  two.format = quant::Format::f32;
  two.view = {reinterpret_cast<const uint8_t*>(values.data()), 16};
  hf::Description to("gemma3n");
  to.add("per_layer_token_embd.weight", "embed.weight", {2, 3});
  to.tensors.back().rows = {0, 2};
  const std::vector<Tensor> bound = hf::bind(to, {two}, {}, "folder");
  EXPECT_EQ(values_of(bound.at(0)), (std::vector<float>{1, 2, 3, 4, 0, 0}));
}

TEST(HfBind, ABiasOfZerosIsNotNeeded) {
  QuantizedFixture folder("gptq-4");
  folder.unpack();
  hf::Description to("llama");
  to.add("blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight", {128, 32});
  std::vector<float> zeros(32);
  Tensor bias;
  bias.name = "model.layers.0.self_attn.o_proj.bias";
  bias.shape = {32};
  bias.view = {reinterpret_cast<const uint8_t*>(zeros.data()), zeros.size() * sizeof(float)};
  folder.tensors.push_back(bias);
  EXPECT_EQ(hf::bind(to, folder.tensors, folder.unreadable, "folder").size(), 1u);
  zeros[31] = 1;
  EXPECT_REFUSED(hf::bind(to, folder.tensors, folder.unreadable, "folder"),
                 "1 tensors that are not part of the model: model.layers.0.self_attn.o_proj.bias");
}

}  // namespace
}  // namespace heddle::formats

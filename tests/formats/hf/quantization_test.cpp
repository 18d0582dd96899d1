// Packed weights against the values that Python has computed, in every method; and what is refused.
#include "formats/hf/quantization.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "tests/formats/hf/hf_files.h"
#include "tests/formats/hf/quantized/quantized_fixture.h"
#include "tests/support/refused.h"

namespace heddle::formats {
namespace {

using namespace test;
using quant::Format;

// The largest error of a value in a format, given the largest value of its block of 32.
float allowed(Format format, float value, float largest) {
  switch (format) {
    case Format::q4_1:  // the offset is an f16, up to 15 / 16 of the range of the block away from 0
      return largest * 0x1p-10f;
    case Format::q8_0:  // half a step, with a scale that is an f16
      return largest * (0.5f / 127 + 0x1p-11f);
    case Format::bf16:
      return std::fabs(value) * 0x1p-8f;
    default:
      return 0;
  }
}

struct Method {
  const char* name;
  const char* text;
  Format format;
  bool repacked = false;  // the same quants, but for the rounding of a scale to f16
};

class QuantizedFolder : public testing::TestWithParam<Method> {};

TEST_P(QuantizedFolder, HasTheValues) {
  QuantizedFixture folder(GetParam().name);
  EXPECT_EQ(folder.unpack(), GetParam().text);
  for (const Tensor& expected : folder.expected) {
    const Tensor& weight = folder.weight(expected.name);
    const std::vector<float> want = values_of(expected), got = values_of(weight);
    EXPECT_EQ(weight.format, GetParam().format);
    ASSERT_EQ(weight.shape, expected.shape);
    const uint64_t cols = weight.shape[0];
    if (weight.exact) {
      std::vector<float> exact(want.size());
      weight.exact(0, weight.rows(), exact.data());
      EXPECT_EQ(exact, want);
      std::vector<float> two_rows(2 * cols);
      weight.exact(3, 2, two_rows.data());
      EXPECT_TRUE(std::equal(two_rows.begin(), two_rows.end(), want.begin() + long(3 * cols)));
    }
    for (size_t i = 0; i < want.size(); ++i) {
      const uint64_t row = i / cols, block = i % cols / 32 * 32;
      float largest = 0;
      for (uint64_t j = block; j < std::min(block + 32, cols); ++j)
        largest = std::max(largest, std::fabs(want[row * cols + j]));
      const float bound = GetParam().repacked ? largest * 0x1p-11f : allowed(weight.format, want[i], largest);
      ASSERT_LE(std::fabs(got[i] - want[i]), bound) << weight.name << " row " << row << " col " << i % cols;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , QuantizedFolder,
    testing::Values(
        Method{"awq", "AWQ 4 bit, group 64", Format::q4_1}, Method{"awq-gemv", "AWQ 4 bit, group 32", Format::q4_1},
        Method{"awq-whole-rows", "AWQ 4 bit, one group per row", Format::q4_1},
        Method{"awq-small-groups", "AWQ 4 bit, group 16", Format::q8_0},
        Method{"gptq-2", "GPTQ 2 bit, group 64", Format::q4_1}, Method{"gptq-3", "GPTQ 3 bit, group 32", Format::q4_1},
        Method{"gptq-4", "GPTQ 4 bit, group 64", Format::q4_1},
        Method{"gptq-4-sym", "GPTQ 4 bit, group 32", Format::q4_0},
        Method{"gptq-4-desc-act", "GPTQ 4 bit, group 32, desc_act", Format::q8_0},
        Method{"gptq-4-v2", "GPTQ 4 bit, one group per row", Format::q4_1},
        Method{"gptq-8", "GPTQ 8 bit, group 64", Format::q8_0},
        Method{"gptq-8-sym", "GPTQ 8 bit, group 64", Format::q8_0, true},
        Method{"compressed-int4", "compressed-tensors int4, group 32", Format::q4_0, true},
        Method{"compressed-int4-zeros", "compressed-tensors int4, group 64", Format::q4_1},
        Method{"compressed-int4-order", "compressed-tensors int4, group 32", Format::q8_0},
        Method{"compressed-int8-packed", "compressed-tensors int8, group 128", Format::q8_0, true},
        Method{"compressed-int8", "compressed-tensors int8", Format::q8_0, true},
        Method{"compressed-int8-zeros", "compressed-tensors int8", Format::q8_0},
        Method{"compressed-fp8", "compressed-tensors FP8, one scale per row", Format::q8_0},
        Method{"compressed-fp8-blocks", "compressed-tensors FP8, block 16 x 32", Format::q8_0},
        Method{"fp8", "FP8, block 16 x 32", Format::q8_0}, Method{"fp8-e8m0", "FP8, block 16 x 32", Format::q8_0},
        Method{"fp8-e5m2", "FP8, block 16 x 32", Format::q8_0},
        Method{"fp8-tensor", "FP8, one scale per tensor", Format::q8_0},
        Method{"fp8-odd", "FP8, one scale per row", Format::bf16},
        Method{"modelopt", "FP8, one scale per tensor", Format::q8_0}, Method{"nf4", "bitsandbytes nf4", Format::q8_0},
        Method{"nf4-nested", "bitsandbytes nf4 with double quantisation", Format::q8_0},
        Method{"fp4", "bitsandbytes fp4", Format::q8_0}, Method{"bnb-int8", "bitsandbytes int8", Format::q8_0, true},
        Method{"mxfp4", "", Format::mxfp4}),
    [](const auto& method) {
      std::string name = method.param.name;
      std::ranges::replace(name, '-', '_');
      return name;
    });

std::string refused(const char* name, const std::function<void(QuantizedFixture&)>& spoil) {
  QuantizedFixture folder(name);
  spoil(folder);
  return heddle::test::refusal(
      [&] { hf::unpack_quantized(folder.config, folder.tensors, folder.unreadable, "folder"); });
}
#define EXPECT_SPOILT(name, spoil, ...) \
  heddle::test::expect_says(refused(name, [](QuantizedFixture& folder) { spoil; }), {__VA_ARGS__})

TEST(Quantization, WithoutItNothingChanges) {
  QuantizedFixture folder("fp8");
  folder.config.clear();
  const size_t tensors = folder.tensors.size(), unreadable = folder.unreadable.size();
  EXPECT_EQ(hf::unpack_quantized(folder.config, folder.tensors, folder.unreadable, "folder"), "");
  EXPECT_EQ(folder.tensors.size(), tensors);
  EXPECT_EQ(folder.unreadable.size(), unreadable);
}

TEST(Quantization, OfATextModelInALargerOne) {
  QuantizedFixture folder("fp8");
  folder.config = {{"text_config", folder.config}};
  EXPECT_EQ(folder.unpack(), "FP8, block 16 x 32");
}

TEST(Quantization, AConfigWithoutPackedWeightsChangesNothing) {
  QuantizedFixture folder("nf4");
  folder.tensors.clear();
  folder.unreadable.clear();
  EXPECT_EQ(hf::unpack_quantized(folder.config, folder.tensors, folder.unreadable, "folder"), "");
}

TEST(Quantization, UnknownMethodsAreNamed) {
  EXPECT_SPOILT("awq", folder.option("quant_method") = "quark",
                "folder: config.json: quantization_config: quant_method: expected one of awq, bitsandbytes, ",
                "found \"quark\"");
  EXPECT_SPOILT("awq", folder.config["quantization_config"] = 4, "quantization_config: expected an object, found 4");
  EXPECT_SPOILT("awq", folder.option("version") = "marlin", "version: expected \"gemm\" or ", "found \"marlin\"");
  EXPECT_SPOILT("awq", folder.option("bits") = 3, "bits: expected 4, found 3");
  EXPECT_SPOILT("awq", folder.option("zero_point") = false, "zero_point: expected true, found false");
  EXPECT_SPOILT("gptq-4", folder.option("bits") = 5u, "bits: expected 2 or 3 or 4 or 8, found 5");
  EXPECT_SPOILT("gptq-4", folder.option("checkpoint_format") = "marlin", "checkpoint_format: expected \"gptq\"");
  EXPECT_SPOILT("gptq-4", folder.option("dynamic") = Json({{"lm_head", {{"bits", 8}}}}),
                "dynamic: expected the same options for all modules");
  EXPECT_SPOILT("compressed-int4", folder.option("format") = "marlin-24", "format: expected \"pack-quantized\"");
  EXPECT_SPOILT("compressed-int4", folder.option("sparsity_config") = Json({{"format", "sparse-bitmask"}}),
                "sparsity_config: format: expected \"dense\"");
  EXPECT_SPOILT("modelopt", folder.option("quant_algo") = "NVFP4", "quant_algo: expected \"FP8\", found \"NVFP4\"");
  EXPECT_SPOILT("fp8", folder.option("weight_block_size") = {128}, "weight_block_size: expected two sizes");
  EXPECT_SPOILT("fp8", folder.option("weight_block_size") = Json({0, 128}), "weight_block_size: expected two sizes");
}

TEST(Quantization, MissingTensorsAreNamed) {
  EXPECT_SPOILT("awq", folder.drop(".qzeros"), "folder: tensor model.layers.0.mlp.up_proj.qzeros: expected");
  EXPECT_SPOILT("awq", folder.drop(".scales"), "mlp.up_proj.scales: expected in a quantised model, but not there");
  EXPECT_SPOILT("gptq-4-desc-act", folder.drop(".g_idx"), "o_proj.g_idx: expected, as desc_act says, but not there");
  EXPECT_SPOILT("compressed-int4", folder.drop(".weight_shape"), "down_proj.weight_shape: expected");
  EXPECT_SPOILT("fp8", folder.drop("_scale_inv"), "gate_proj.weight: has the type F8_E4M3; expected ",
                "gate_proj.weight_scale_inv or ", "found neither");
  EXPECT_SPOILT("nf4", folder.drop(".absmax"), "v_proj.weight.absmax: expected");
  EXPECT_SPOILT("nf4-nested", folder.drop(".nested_quant_map"), "v_proj.weight.nested_quant_map: expected");
  EXPECT_SPOILT("mxfp4", folder.drop("_scales"), "mlp.experts.down_proj_scales: expected");
}

TEST(Quantization, ShapesAreHeldToTheWeight) {
  EXPECT_SPOILT("awq", folder.reshape(".scales", {32, 1}), "up_proj.scales: expected 2 x 32, found 1 x 32");
  EXPECT_SPOILT("awq", folder.option("group_size") = 48u,
                "expected columns that are a multiple of group_size 48, found 128");
  EXPECT_SPOILT("awq-gemv", folder.reshape(".qzeros", {4, 16}),
                "up_proj.qzeros: expected 32 x at least 1, found 16 x 4");
  EXPECT_SPOILT("gptq-4", folder.reshape(".qzeros", {2, 4}), "o_proj.qzeros: expected 2 x 4, found 4 x 2");
  EXPECT_SPOILT("gptq-4", folder.option("bits") = 8u, "o_proj.qzeros: expected 1 x 8, found 2 x 4");
  EXPECT_SPOILT("compressed-int4", folder.reshape(".weight_packed", {8, 48}),
                "weight_packed: expected words with 4 or 8 ", "24 x 128 values, found 48 x 8");
  EXPECT_SPOILT("compressed-int4", folder.reshape(".weight_scale", {24, 4}), "weight_scale: expected one scale, or ",
                "24 rows of 128, found 4 x 24");
  EXPECT_SPOILT("fp8", folder.reshape("_scale_inv", {9}),
                "weight_scale_inv: expected 3 x 3, one scale for each 16 x 32 ", "40 x 96, found 9");
  EXPECT_SPOILT("compressed-fp8", folder.reshape("_scale", {40, 2}),
                "weight_scale: expected one scale, or one per row, ", "40 x 96, found 2 x 40");
  EXPECT_SPOILT("nf4", folder.reshape(".weight", {100}), "v_proj.weight: expected 960, found 100");
  EXPECT_SPOILT("bnb-int8", folder.reshape(".SCB", {23}), "v_proj.SCB: expected 24, found 23");
  EXPECT_SPOILT("mxfp4", folder.reshape("gate_up_proj_scales", {2, 63, 2}),
                "gate_up_proj_scales: expected 2 x 64 x 2, found 2 x 63 x 2");
  EXPECT_SPOILT("mxfp4", folder.reshape("down_proj_blocks", {8, 2, 64, 2}),
                "down_proj_blocks: expected experts x rows x blocks x 16, found 2 x 64 x 2 x 8");
}

TEST(Quantization, TypesAreHeldToTheMethod) {
  QuantizedFixture folder("awq");
  for (Tensor& tensor : folder.tensors)
    if (tensor.name.ends_with(".qzeros")) tensor.format = Format::f32;
  EXPECT_REFUSED(hf::unpack_quantized(folder.config, folder.tensors, folder.unreadable, "folder"),
                 "up_proj.qzeros: expected the type I32, found F32");
}

TEST(Quantization, WhatTheDataSaysIsChecked) {
  QuantizedFixture order("gptq-4-desc-act");
  std::vector<uint8_t> groups(128 * 4, 0);
  groups[4] = 4;  // of 4 groups
  for (Tensor& tensor : order.tensors)
    if (tensor.name.ends_with(".g_idx")) tensor.view = groups;
  EXPECT_REFUSED(hf::unpack_quantized(order.config, order.tensors, order.unreadable, "folder"),
                 "o_proj.g_idx: expected groups below 4, found 4 for column 1");

  QuantizedFixture symmetric("gptq-4");
  symmetric.option("sym") = true;
  symmetric.unpack();
  EXPECT_REFUSED(values_of(symmetric.tensors[0]),
                 "tensor model.layers.0.self_attn.o_proj.qweight: ", "expected zero points of 8, as sym says, found ");

  QuantizedFixture state("nf4");
  const std::string text = R"({"quant_type": "nf4", "shape": [20], "blocksize": 64})";
  for (Unreadable& tensor : state.unreadable)
    if (tensor.name.ends_with("__nf4")) tensor.view = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  EXPECT_REFUSED(hf::unpack_quantized(state.config, state.tensors, state.unreadable, "folder"),
                 "quant_state.bitsandbytes__nf4: shape: expected rows and columns, found [20]");
}

TEST(Quantization, AScaleThatIsNoNumberIsNamed) {
  QuantizedFixture folder("fp8");
  const std::vector<float> scales(9, NAN);
  for (Tensor& tensor : folder.tensors)
    if (tensor.name.ends_with("_scale_inv")) tensor.view = {reinterpret_cast<const uint8_t*>(scales.data()), 36};
  folder.unpack();
  EXPECT_REFUSED(values_of(folder.tensors[0]), "tensor model.layers.0.mlp.gate_proj.weight: value 0 is nan");
}

// Scales of AWQ that an f16 cannot hold: encoded from the values, which are clamped; NaN is named.
TEST(Quantization, ScalesBeyondF16) {
  for (const float scale : {1e6f, NAN}) {
    QuantizedFixture folder("awq");
    const std::vector<float> scales(64, scale);
    for (Tensor& tensor : folder.tensors)
      if (tensor.name.ends_with(".scales")) {
        tensor.format = Format::f32;
        tensor.view = {reinterpret_cast<const uint8_t*>(scales.data()), scales.size() * 4};
      }
    folder.unpack();
    const Tensor& weight = folder.tensors[0];
    if (std::isnan(scale)) {
      EXPECT_REFUSED(values_of(weight), "tensor model.layers.0.mlp.up_proj.qweight: value ", "is ", "nan");
      continue;
    }
    for (const float value : values_of(weight)) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace heddle::formats

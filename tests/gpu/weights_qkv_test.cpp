// q, k and v on the device: in which order their rows lie, and when they are one matrix.
#include <numeric>

#include "tests/gpu/expect_sources.h"
#include "tests/gpu/small_model.h"

namespace heddle::gpu {
namespace {

using model::Rope;
using quant::Format;
using Rows = std::vector<uint32_t>;

Rows counting(uint32_t from, uint32_t count) {
  Rows rows(count);
  std::iota(rows.begin(), rows.end(), from);
  return rows;
}
DeviceAttention& attention_of(DeviceModel& d) { return *d.layers.at(0).find<DeviceAttention>(); }
// The places of the first rows, one head after the other.
Rows first_head(const Weights& w) { return {w.places.begin(), w.places.begin() + 16}; }

TEST(DescribeQkv, NeighboursAreTurnedByFours) {
  SmallModel small;
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& layer = attention_of(d);
  EXPECT_TRUE(layer.joined_qkv);
  EXPECT_EQ(layer.rotary, 16u);
  ASSERT_EQ(layer.qkv.size(), 1u);
  const Weights& w = layer.qkv[0];
  EXPECT_EQ(w.shape.rows, 128u);
  EXPECT_EQ(w.shape.cols, 64u);
  EXPECT_EQ(w.shape.tile_cols, 256u);
  EXPECT_EQ(first_head(w), (Rows{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
  // the second head of k, then v as it is
  EXPECT_EQ(Rows(w.places.begin() + 80, w.places.begin() + 84), (Rows{80, 82, 81, 83}));
  EXPECT_EQ(Rows(w.places.begin() + 96, w.places.end()), counting(96, 32));
  expect_sources_fill_places(w, 3);
  EXPECT_EQ(w.sources[1].from.data.data(), small.attention().k.data.data());
  EXPECT_EQ(w.sources[1].rows[80], 16u);
  EXPECT_TRUE(w.bias.empty());
}

TEST(DescribeQkv, HalvesAreBroughtTogether) {
  SmallModel small;
  SmallModel::set_rope(small.attention(), Rope::Style::halves, 16);
  DeviceModel d = describe_weights(small.model);
  EXPECT_EQ(first_head(attention_of(d).qkv[0]), (Rows{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}));
  expect_sources_fill_places(attention_of(d).qkv[0], 3);
}

TEST(DescribeQkv, WhatIsNotTurnedStays) {
  SmallModel small;
  SmallModel::set_rope(small.attention(), Rope::Style::halves, 8);
  DeviceModel d = describe_weights(small.model);
  EXPECT_EQ(attention_of(d).rotary, 8u);
  EXPECT_EQ(first_head(attention_of(d).qkv[0]), (Rows{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  small.attention().rope.style = Rope::Style::none;
  d = describe_weights(small.model);
  EXPECT_EQ(attention_of(d).rotary, 0u);
  EXPECT_TRUE(attention_of(d).joined_qkv);
  EXPECT_EQ(attention_of(d).qkv[0].places, counting(0, 128));
}

TEST(DescribeQkv, ABiasOfOneGivesTheOthersZeros) {
  SmallModel small;
  small.attention().k_bias.assign(32, 2.0f);
  DeviceModel d = describe_weights(small.model);
  std::vector<float> expected(128, 0.0f);
  std::fill(expected.begin() + 64, expected.begin() + 96, 2.0f);
  EXPECT_EQ(attention_of(d).qkv[0].bias, expected);
}

TEST(DescribeQkv, VOfAnotherFormatIsASecondMatrix) {
  SmallModel small;
  small.attention().v = small.matrix(32, 64, Format::f16);
  small.attention().q_bias.assign(64, 3.0f), small.attention().v_bias.assign(32, 4.0f);
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& layer = attention_of(d);
  EXPECT_TRUE(layer.joined_qkv);
  ASSERT_EQ(layer.qkv.size(), 2u);
  EXPECT_EQ(layer.qkv[0].shape.rows, 96u);
  expect_sources_fill_places(layer.qkv[0], 2);
  EXPECT_EQ(layer.qkv[1].shape.format, Format::f16);
  EXPECT_EQ(layer.qkv[1].shape.rows, 32u);
  EXPECT_TRUE(layer.qkv[1].places.empty());
  EXPECT_EQ(layer.qkv[1].first_place, 96u);
  std::vector<float> all(128, 0.0f);  // one product does both
  std::fill_n(all.begin(), 64, 3.0f), std::fill_n(all.begin() + 96, 32, 4.0f);
  EXPECT_EQ(layer.qkv[0].bias, all);
  EXPECT_EQ(layer.qkv[1].bias, std::vector<float>(32, 4.0f));  // where each is a product of its own
}

// As the file has them, one after the other in the result.
void expect_apart(SmallModel& small, const char* why) {
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& layer = attention_of(d);
  const model::Attention& a = small.attention();
  EXPECT_FALSE(layer.joined_qkv) << why;
  ASSERT_EQ(layer.qkv.size(), 3u) << why;
  EXPECT_EQ(layer.qkv[0].first_place, 0u) << why;
  EXPECT_EQ(layer.qkv[1].first_place, a.q.rows) << why;
  EXPECT_EQ(layer.qkv[2].first_place, a.q.rows + a.k.rows) << why;
  for (const Weights& w : layer.qkv) {
    EXPECT_TRUE(w.places.empty()) << why;
    ASSERT_EQ(w.sources.size(), 1u) << why;
    EXPECT_TRUE(w.sources[0].rows.empty()) << why;
  }
}

TEST(DescribeQkv, IsThreeWhereTheProductCannotDoTheRest) {
  {
    SmallModel small;
    small.attention().q_norm = SmallModel::norm(16);
    expect_apart(small, "a norm of q");
    small.attention().q_norm = {}, small.attention().k_norm = SmallModel::norm(32);
    expect_apart(small, "a norm of k");
  }
  {
    SmallModel small;
    small.attention().k = small.matrix(32, 64, Format::f16);
    expect_apart(small, "k of another format");
  }
  {
    SmallModel small;
    SmallModel::set_rope(small.attention(), Rope::Style::pairs, 6);
    expect_apart(small, "6 values turned");
  }
  {
    SmallModel small;
    model::Attention& a = small.attention();
    a.head = 6, a.q = small.matrix(24, 64), a.k = small.matrix(12, 64);
    SmallModel::set_rope(a, Rope::Style::none, 0);
    expect_apart(small, "heads of 6");
  }
  {
    SmallModel small;
    model::Attention& a = small.attention();
    a.value_head = 6, a.v = small.matrix(12, 64), a.output = small.matrix(64, 24);
    expect_apart(small, "values of 6");
  }
  {  // a tile has 16 rows: v would begin within one
    SmallModel small;
    model::Attention& a = small.attention();
    a.heads = 1, a.kv_heads = 1, a.head = 4;
    a.q = small.matrix(4, 64), a.k = small.matrix(4, 64), a.v = small.matrix(16, 64, Format::f16);
    SmallModel::set_rope(a, Rope::Style::pairs, 4);
    expect_apart(small, "8 rows before v");
    a.v = small.matrix(16, 64);  // of one format it may
    DeviceModel d = describe_weights(small.model);
    EXPECT_TRUE(attention_of(d).joined_qkv);
  }
}

}  // namespace
}  // namespace heddle::gpu

// What would be uploaded: which matrices become one, in which order their rows lie, their bytes, and what is refused.
#include "gpu/weights.h"

#include <cstring>
#include <numeric>

#include "formats/checkpoint.h"
#include "kernels/format/block_format.h"
#include "model/load.h"
#include "tests/cuda/fake_test.h"
#include "tests/gpu/small_model.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"
#include "tests/support/refused.h"

namespace heddle::gpu {
namespace {

using cuda::message;
using model::Rope;
using quant::Format;
using Rows = std::vector<uint32_t>;

template <class Kind>
const Kind& of(DeviceModel& d, size_t layer = 0) {
  const Kind* found = d.layers.at(layer).find<Kind>();
  check(found != nullptr, "a sublayer of this kind");
  return *found;
}

// Each packed row comes from exactly one source, and goes to the place where that row would be with the matrices one
// below the other.
void expect_sources_fill_places(const Weights& w, size_t sources) {
  ASSERT_EQ(w.sources.size(), sources);
  std::vector<bool> seen(w.shape.rows);
  for (uint32_t p = 0; p < w.shape.rows; ++p) {
    uint32_t below = 0, from = 0;
    for (const Source& source : w.sources) {
      ASSERT_EQ(source.rows.size(), w.shape.rows);
      if (source.rows[p] != Source::skip) {
        EXPECT_LT(source.rows[p], source.from.rows);
        EXPECT_EQ(w.places[p], below + source.rows[p]) << p;
        ++from;
      }
      below += uint32_t(source.from.rows);
    }
    EXPECT_EQ(from, 1u) << p;
    EXPECT_FALSE(seen.at(w.places[p])) << p;
    seen[w.places[p]] = true;
  }
}

// --- q, k and v -----------------------------------------------------------------------------------------------------
Rows counting(uint32_t from, uint32_t count) {
  Rows rows(count);
  std::iota(rows.begin(), rows.end(), from);
  return rows;
}
// The places of the first rows, one head after the other.
Rows first_head(const Weights& w) { return {w.places.begin(), w.places.begin() + 16}; }

TEST(DescribeQkv, NeighboursAreTurnedByFours) {
  SmallModel small;
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& layer = of<DeviceAttention>(d);
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
  EXPECT_EQ(first_head(of<DeviceAttention>(d).qkv[0]), (Rows{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}));
  expect_sources_fill_places(of<DeviceAttention>(d).qkv[0], 3);
}

TEST(DescribeQkv, WhatIsNotTurnedStays) {
  SmallModel small;
  SmallModel::set_rope(small.attention(), Rope::Style::halves, 8);
  DeviceModel d = describe_weights(small.model);
  EXPECT_EQ(of<DeviceAttention>(d).rotary, 8u);
  EXPECT_EQ(first_head(of<DeviceAttention>(d).qkv[0]), (Rows{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  small.attention().rope.style = Rope::Style::none;
  d = describe_weights(small.model);
  EXPECT_EQ(of<DeviceAttention>(d).rotary, 0u);
  EXPECT_TRUE(of<DeviceAttention>(d).joined_qkv);
  EXPECT_EQ(of<DeviceAttention>(d).qkv[0].places, counting(0, 128));
}

TEST(DescribeQkv, ABiasOfOneGivesTheOthersZeros) {
  SmallModel small;
  small.attention().k_bias.assign(32, 2.0f);
  DeviceModel d = describe_weights(small.model);
  std::vector<float> expected(128, 0.0f);
  std::fill(expected.begin() + 64, expected.begin() + 96, 2.0f);
  EXPECT_EQ(of<DeviceAttention>(d).qkv[0].bias, expected);
}

TEST(DescribeQkv, VOfAnotherFormatIsASecondMatrix) {
  SmallModel small;
  small.attention().v = small.matrix(32, 64, Format::f16);
  small.attention().q_bias.assign(64, 3.0f);
  small.attention().v_bias.assign(32, 4.0f);
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& layer = of<DeviceAttention>(d);
  EXPECT_TRUE(layer.joined_qkv);
  ASSERT_EQ(layer.qkv.size(), 2u);
  EXPECT_EQ(layer.qkv[0].shape.rows, 96u);
  expect_sources_fill_places(layer.qkv[0], 2);
  EXPECT_EQ(layer.qkv[1].shape.format, Format::f16);
  EXPECT_EQ(layer.qkv[1].shape.rows, 32u);
  EXPECT_TRUE(layer.qkv[1].places.empty());
  EXPECT_EQ(layer.qkv[1].first_place, 96u);
  std::vector<float> all(128, 0.0f);  // one product does both
  std::fill_n(all.begin(), 64, 3.0f);
  std::fill_n(all.begin() + 96, 32, 4.0f);
  EXPECT_EQ(layer.qkv[0].bias, all);
  EXPECT_EQ(layer.qkv[1].bias, std::vector<float>(32, 4.0f));  // where each is a product of its own
}

// As the file has them, one after the other in the result.
void expect_apart(SmallModel& small, const char* why) {
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& layer = of<DeviceAttention>(d);
  const model::Attention& a = small.attention();
  EXPECT_FALSE(layer.joined_qkv) << why;
  EXPECT_FALSE(layer.stacked_qkv) << why;
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

TEST(DescribeQkv, IsStackedWhereTheProductCannotDoTheRest) {
  auto expect_stacked = [](SmallModel& small, const char* why) {
    DeviceModel d = describe_weights(small.model);
    const DeviceAttention& layer = of<DeviceAttention>(d);
    const model::Attention& a = small.attention();
    EXPECT_FALSE(layer.joined_qkv) << why;
    EXPECT_TRUE(layer.stacked_qkv) << why;
    ASSERT_EQ(layer.qkv.size(), 1u) << why;
    std::vector<uint32_t> in_order(a.q.rows + a.k.rows + a.v.rows);
    std::iota(in_order.begin(), in_order.end(), 0u);
    EXPECT_EQ(layer.qkv[0].places, in_order) << why;
    expect_sources_fill_places(layer.qkv[0], 3);
  };
  {
    SmallModel small;
    small.attention().q_norm = SmallModel::norm(16);
    expect_stacked(small, "a norm of q");
    small.attention().q_norm = {};
    small.attention().k_norm = SmallModel::norm(32);
    expect_stacked(small, "a norm of k");
  }
  {
    SmallModel small;
    SmallModel::set_rope(small.attention(), Rope::Style::pairs, 6);
    expect_stacked(small, "6 values turned");
  }
  {
    SmallModel small;
    model::Attention& a = small.attention();
    a.head = 6;
    a.q = small.matrix(24, 64);
    a.k = small.matrix(12, 64);
    SmallModel::set_rope(a, Rope::Style::none, 0);
    expect_stacked(small, "heads of 6");
  }
  {
    SmallModel small;
    model::Attention& a = small.attention();
    a.value_head = 6;
    a.v = small.matrix(12, 64);
    a.output = small.matrix(64, 24);
    expect_stacked(small, "values of 6");
  }
  SmallModel small;  // v of another format is a second matrix, as where the product does the rest
  small.attention().q_norm = SmallModel::norm(16);
  small.attention().v = small.matrix(32, 64, Format::f16);
  DeviceModel d = describe_weights(small.model);
  EXPECT_TRUE(of<DeviceAttention>(d).stacked_qkv);
  ASSERT_EQ(of<DeviceAttention>(d).qkv.size(), 2u);
  EXPECT_EQ(of<DeviceAttention>(d).qkv[1].first_place, 96u);
}

TEST(DescribeQkv, IsThreeWhereFormatsDoNotAllowOne) {
  {
    SmallModel small;
    small.attention().k = small.matrix(32, 64, Format::f16);
    expect_apart(small, "k of another format");
  }
  {  // a tile has 16 rows: v would begin within one
    SmallModel small;
    model::Attention& a = small.attention();
    a.heads = 1;
    a.kv_heads = 1;
    a.head = 4;
    a.q = small.matrix(4, 64);
    a.k = small.matrix(4, 64);
    a.v = small.matrix(16, 64, Format::f16);
    SmallModel::set_rope(a, Rope::Style::pairs, 4);
    expect_apart(small, "8 rows before v");
    a.v = small.matrix(16, 64);  // of one format it may
    DeviceModel d = describe_weights(small.model);
    EXPECT_TRUE(of<DeviceAttention>(d).joined_qkv);
  }
}

// --- feed-forward and mixtures --------------------------------------------------------------------------------------
TEST(DescribeFeedForward, GateAndUpAlternateByTwos) {
  SmallModel small;
  small.ffn().up_bias.assign(96, 5.0f);
  DeviceModel d = describe_weights(small.model);
  const auto& f = of<DeviceFeedForward>(d);
  EXPECT_TRUE(f.joined_gate);
  ASSERT_EQ(f.in.size(), 1u);
  const Weights& w = f.in[0];
  EXPECT_EQ(w.shape.rows, 192u);
  EXPECT_EQ(Rows(w.places.begin(), w.places.begin() + 8), (Rows{0, 1, 96, 97, 2, 3, 98, 99}));
  EXPECT_EQ(Rows(w.places.end() - 4, w.places.end()), (Rows{94, 95, 190, 191}));
  expect_sources_fill_places(w, 2);
  EXPECT_EQ(w.sources[0].from.data.data(), small.ffn().gate.data.data());
  EXPECT_EQ(w.bias.at(95), 0.0f);
  EXPECT_EQ(w.bias.at(96), 5.0f);
  EXPECT_FALSE(d.layers[0].find<DeviceMixture>());
  EXPECT_EQ(f.down.shape.cols, 96u);
}

TEST(DescribeFeedForward, GateAndUpApart) {
  SmallModel small;
  model::FeedForward& f = small.ffn();
  auto expect = [&](size_t matrices, const char* why) {
    DeviceModel d = describe_weights(small.model);
    const auto& described = of<DeviceFeedForward>(d);
    EXPECT_FALSE(described.joined_gate) << why;
    ASSERT_EQ(described.in.size(), matrices) << why;
    EXPECT_EQ(described.in[0].sources[0].from.data.data(), f.up.data.data()) << why;
  };
  f.gate = small.matrix(96, 64, Format::bf16);
  expect(2, "of two formats");
  f.gate = small.matrix(95, 64);
  f.up = small.matrix(95, 64);
  f.down = small.matrix(64, 95);
  expect(2, "an odd number of rows");
  f.gate = {};
  f.up_bias.assign(95, 1.0f);
  expect(1, "without a gate");
  DeviceModel d = describe_weights(small.model);
  EXPECT_EQ(of<DeviceFeedForward>(d).in[0].bias.size(), 95u);
}

TEST(DescribeFeedForward, ExpertsFollowEachOther) {
  SmallModel small;
  small.mix(6, 2);
  DeviceModel d = describe_weights(small.model);
  const auto& mixture = of<DeviceMixture>(d);
  EXPECT_TRUE(mixture.joined_experts);
  EXPECT_FALSE(mixture.shared_gated);
  EXPECT_FALSE(mixture.shared);
  EXPECT_FALSE(d.layers[0].find<DeviceFeedForward>());
  ASSERT_EQ(mixture.in.size(), 1u);
  const Weights& in = mixture.in[0];
  EXPECT_EQ(in.count, 6u);
  EXPECT_EQ(in.shape.rows, 64u);
  ASSERT_EQ(in.sources.size(), 12u);  // gate and up of each
  const model::Mixture& m = small.mixture();
  for (uint32_t e = 0; e < 6; ++e) {
    EXPECT_EQ(in.sources[2 * e].from.data.data(), m.gate.expert(e).data.data()) << e;
    EXPECT_EQ(in.sources[2 * e + 1].from.data.data(), m.up.expert(e).data.data()) << e;
    EXPECT_EQ(in.sources[2 * e].rows, in.sources[0].rows) << e;  // uploaded once for all
    EXPECT_EQ(in.sources[2 * e + 1].rows, in.sources[1].rows) << e;
    EXPECT_EQ(mixture.down.sources.at(e).from.data.data(), m.down.expert(e).data.data()) << e;
  }
  EXPECT_EQ(mixture.down.count, 6u);
  EXPECT_EQ(mixture.router.shape.rows, 6u);
  EXPECT_EQ(in.bytes(), 6 * in.shape.bytes());
}

TEST(DescribeFeedForward, ExpertsOfTwoFormatsAreApart) {
  SmallModel small;
  small.mix(4, 2);
  small.mixture().gate.all = small.matrix(4 * 32, 64, Format::f16);
  DeviceModel d = describe_weights(small.model);
  const auto& mixture = of<DeviceMixture>(d);
  EXPECT_FALSE(mixture.joined_experts);
  ASSERT_EQ(mixture.in.size(), 2u);
  EXPECT_EQ(mixture.in[0].shape.format, Format::f32);  // up
  EXPECT_EQ(mixture.in[1].shape.format, Format::f16);
  EXPECT_EQ(mixture.in[1].sources.size(), 4u);
}

TEST(DescribeFeedForward, TheRouterIsDecodedAndHasTheSharedExpertsRowLast) {
  SmallModel small(2);
  small.mix(3, 1);
  model::Mixture& m = small.mixture();
  std::vector<float> router(3 * 64);
  std::iota(router.begin(), router.end(), 1.0f);
  m.router = small.matrix(3, 64, Format::bf16);
  for (uint32_t r = 0; r < 3; ++r)
    quant::encode(Format::bf16, router.data() + r * 64, 64, small.kept.back().data() + r * m.router.row_bytes());
  m.shared_router.assign(64, -7.0f);
  model::FeedForward& f = m.shared.emplace();
  f.gate = small.matrix(96, 64);
  f.up = small.matrix(96, 64);
  f.down = small.matrix(64, 96);
  DeviceModel d = describe_weights(small.model);
  const auto& mixture = of<DeviceMixture>(d);
  EXPECT_TRUE(mixture.shared_gated);
  EXPECT_TRUE(mixture.shared.value().joined_gate);
  EXPECT_EQ(mixture.router.shape.format, Format::f32);
  EXPECT_EQ(mixture.router.shape.rows, 4u);
  const model::Matrix& from = mixture.router.sources.at(0).from;
  ASSERT_EQ(from.data.size(), 4 * 64 * sizeof(float));
  std::vector<float> found(4 * 64), expected = router;
  std::memcpy(found.data(), from.data.data(), from.data.size());
  expected.insert(expected.end(), 64, -7.0f);
  EXPECT_EQ(found, expected);
  EXPECT_FALSE(d.layers[1].find<DeviceMixture>());
}

// --- norms, sizes and refusals --------------------------------------------------------------------------------------
TEST(DescribeNorms, AreFilledToEights) {
  SmallModel small;
  model::Attention& a = small.attention();
  a.q_norm = {model::Norm::Kind::rms, model::Vector(12, 2.0f), {}, 1e-6f};
  a.k_norm = {model::Norm::Kind::layer, {}, {}, 1e-5f};
  DeviceModel d = describe_weights(small.model);
  const auto& attention = of<DeviceAttention>(d);
  const DeviceNorm &q = attention.q_norm, &k = attention.k_norm;
  EXPECT_EQ(q.size, 12u);
  EXPECT_EQ(q.weight, (std::vector<float>{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0}));
  EXPECT_TRUE(q.bias.empty());
  EXPECT_EQ(q.epsilon, 1e-6f);
  EXPECT_EQ(k.size, 16u);  // of a head, where it has no weight
  EXPECT_EQ(k.weight, std::vector<float>(16, 1.0f));
  EXPECT_EQ(k.bias, std::vector<float>(16, 0.0f));
  EXPECT_FALSE(attention.output_norm);
  EXPECT_TRUE(attention.output_norm.weight.empty());
}

// A tile of f32 is 16 KB, here 16 rows of up to 256 columns; 4 bytes a row are for biases.
TEST(DescribeWeights, WeighsTilesAndBiases) {
  constexpr uint64_t tile = 16384;
  SmallModel small;
  DeviceModel d = describe_weights(small.model);
  EXPECT_EQ(d.embedding.bytes(), 7 * tile);
  const uint64_t layer = (8 + 4 + 12 + 4) * tile + 4 * (128 + 64 + 192 + 64);
  EXPECT_EQ(d.bytes(), layer + 2 * (7 * tile + 4 * 100));
  EXPECT_EQ(d.largest_source(), 100u * 64 * 4);
  EXPECT_EQ(d.all().size(), 6u);

  small.model.output = small.model.embedding;  // tied: on the device once
  d = describe_weights(small.model);
  EXPECT_EQ(d.bytes(), layer + 7 * tile + 4 * 100);

  small.model.positions = small.matrix(96, 64, Format::q8_0);  // a tile of q8_0 is 128 blocks of 34 bytes
  d = describe_weights(small.model);
  EXPECT_EQ(d.all().size(), 7u);
  EXPECT_EQ(d.bytes(), layer + 7 * tile + 4 * 100 + 6 * 128 * 34 + 4 * 96);

  small.mix(6, 2);
  d = describe_weights(small.model);
  const auto& mixture = of<DeviceMixture>(d);
  EXPECT_EQ(mixture.in[0].bytes(), 6 * 4 * tile);
  EXPECT_EQ(mixture.down.bytes(), 6 * 4 * tile);
  EXPECT_EQ(mixture.router.bytes(), tile);
}

TEST(DescribeWeights, RefusesWithWhatItFound) {
  SmallModel small;
  auto refusal = [&] { return message<Error>([&] { describe_weights(small.model); }); };
  small.model.width = 60;
  EXPECT_EQ(refusal(), "small: a width of 60, expected a multiple of 8 on the GPU");
  small.model.width = 64;
  small.model.embedding = small.matrix(2, 64, Format::f64);
  EXPECT_EQ(refusal(), "weights of type f64 cannot run on the GPU");
  small.model.embedding = {Format::f32, 1, (1 << 20) + 1, {}};
  EXPECT_EQ(refusal(), "a matrix of 1 x 1048577 is too large for the GPU");
  small.model.embedding = {Format::f32, 0xfffffff1, 64, {}};
  EXPECT_EQ(refusal(), "a matrix of 4294967281 x 64 is too large for the GPU");
  small.model.embedding = small.matrix(100, 64);
  small.mix(513, 2);
  EXPECT_EQ(refusal(), "a mixture that picks 2 of 513 experts, expected at most 32 of 512 on the GPU");
  small.mix(64, 33);
  EXPECT_EQ(refusal(), "a mixture that picks 33 of 64 experts, expected at most 32 of 512 on the GPU");
  small.mix(512, 32);
  EXPECT_NO_THROW(describe_weights(small.model));
}

TEST(DescribeWeights, TakesEveryFormatThatHasTiles) {
  for (Format format : kernels::known_formats) {
    SmallModel small;
    small.model.embedding = small.matrix(16, 256, format);
    EXPECT_EQ(describe_weights(small.model).embedding.bytes(), kernels::tile_bytes(format)) << quant::name(format);
  }
}

TEST(DescribeQkv, KeysThatAreValuesAreThereOnce) {
  SmallModel small;
  model::Attention& a = small.attention();
  a.v = a.k;
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& same = *d.layers[0].find<DeviceAttention>();
  EXPECT_TRUE(same.stacked_qkv);
  ASSERT_EQ(same.qkv.size(), 1u);
  EXPECT_EQ(same.qkv[0].shape.rows, 64u + 32u);

  a.k_bias = model::Vector(32, 1.0f);  // of the keys alone: the two differ
  d = describe_weights(small.model);
  EXPECT_EQ(d.layers[0].find<DeviceAttention>()->qkv[0].shape.rows, 64u + 32u + 32u);
}

TEST(DescribeQkv, IsQAloneWhereAnotherLayerFillsTheCache) {
  SmallModel small;
  small.attention().k = small.attention().v = {};
  DeviceModel d = describe_weights(small.model);
  const DeviceAttention& a = *d.layers[0].find<DeviceAttention>();
  EXPECT_TRUE(a.stacked_qkv);
  ASSERT_EQ(a.qkv.size(), 1u);
  EXPECT_EQ(a.qkv[0].shape.rows, 64u);
}

TEST(DescribeMixtures, RefuseLatentsOfOddSizes) {
  SmallModel small;
  small.mix(4, 2);
  model::Mixture& m = small.mixture();
  m.latent_down = small.matrix(12, 64);
  m.latent_up = small.matrix(64, 12);
  EXPECT_REFUSED(describe_weights(small.model), "experts that read 12 values, expected a multiple of 8 on the GPU");
}

// --- every architecture ---------------------------------------------------------------------------------------------
// All rows of the model are among the sources once, whatever its architecture.
void expect_described(const model::Model& model) {
  DeviceModel d = describe_weights(model);
  ASSERT_EQ(d.layers.size(), model.layers.size());
  for (Weights* w : d.all()) {
    EXPECT_EQ(w->sources.size() % w->count, 0u);
    if (w->places.empty()) {
      EXPECT_EQ(w->sources.size(), w->count);
    } else if (w->count == 1) {
      expect_sources_fill_places(*w, w->sources.size());
    }
    EXPECT_TRUE(w->bias.empty() || w->bias.size() >= w->shape.rows);
  }
  for (size_t i = 0; i < d.layers.size(); ++i) {
    uint64_t rows = 0;
    if (const auto* a = model.layers[i].find<model::Attention>()) {
      for (const Weights& w : d.layers[i].find<DeviceAttention>()->qkv) rows += w.shape.rows;
      EXPECT_EQ(rows, a->latent ? (a->latent->q_down ? a->latent->q_down.rows : a->q.rows) + a->latent->kv_down.rows
                                : a->q.rows + a->k.rows + (a->values_are_keys() ? 0 : a->v.rows));
      EXPECT_EQ(bool(d.layers[i].find<DeviceAttention>()->gate), bool(a->gate));
    }
    rows = 0;
    if (const auto* r = model.layers[i].find<model::Recurrence>()) {
      for (const Weights& w : d.layers[i].find<DeviceRecurrence>()->in) {
        EXPECT_EQ(w.first_place, rows);
        rows += w.shape.rows;
      }
      EXPECT_EQ(rows, r->mixed.rows + r->gate.rows + r->steps.rows + r->betas.rows);
    }
    EXPECT_EQ(bool(d.layers[i].find<DeviceMixture>()), bool(model.layers[i].find<model::Mixture>()));
    EXPECT_EQ(d.layers[i].sublayers.size(), model.layers[i].sublayers.size());
  }
}

class DescribeArchitectures : public testing::TestWithParam<std::string> {};
TEST_P(DescribeArchitectures, TheirTensorsAreAllThere) {
  const test::Fixture fixture(GetParam());
  const test::Folder folder;
  for (Format format : {Format::f32, Format::bf16}) {
    fixture.write(folder, fixture.config, format);
    expect_described(model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context}));
  }
}
INSTANTIATE_TEST_SUITE_P(All, DescribeArchitectures, testing::ValuesIn(test::Fixture::names_of_text_models()),
                         [](const auto& one) { return test::as_test_name(one.param); });

using test::HfArch;
TEST_P(HfArch, IsDescribed) {
  SHARED_DATA(path, folder());
  expect_described(model::load(formats::open_checkpoint(path)));
}
HEDDLE_FOR_ALL_OF_HF_ARCH();

}  // namespace
}  // namespace heddle::gpu

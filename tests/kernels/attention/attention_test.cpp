// attention and any_attention: what they refuse, and properties of their results.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/attention/one_head.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {

// What is easy to get wrong in attention, each by value: a maximum that rises with every position, sums that only some
// lanes hold, no positions at all, offsets beyond 32 bits. The sweep over shapes is in src/proof.
// Tests of all kinds are for cluster_attention too.

namespace {

TEST(Attention, TheMaximumMayRiseWithEveryPosition) {
  for (float step : {0.25f, 1.0f, -1.0f}) {
    std::vector<float> scores;
    for (int p = 0; p < 100; ++p) scores.push_back(float(p) * step * 0.5f);
    OneHead one(scores, 0, [](uint32_t p, uint32_t i) { return float((p * 7 + i) % 16) - 7; });
    each_kind([&](const auto& spec) {
      const std::vector<float> got = one.out(spec);
      for (uint32_t i = 0; i < OneHead::dim; ++i)
        ASSERT_NEAR(got[i], one.want[i], 1e-5) << field_text(spec) << " value " << i;
    });
  }
}

// Whichever lane holds the only product that is not 0, every value of the row is weighted with it.
TEST(Attention, EveryLaneHasTheWholeScore) {
  for (uint32_t carrier : {0u, 7u, 8u, 31u, 40u, 63u}) {
    OneHead one({0.5f, 2, -1, 3, 0, 1, 1, -2, 2.5f}, carrier,
                [](uint32_t p, uint32_t i) { return float(p) + 0.25f * float(i % 8); });
    each_kind([&](const auto& spec) {
      const std::vector<float> got = one.out(spec);
      for (uint32_t i = 0; i < OneHead::dim; ++i)
        ASSERT_NEAR(got[i], one.want[i], 1e-5) << field_text(spec) << " value " << i;
    });
  }
}

TEST(Attention, ScoresFarApartNeitherOverflowNorVanish) {
  OneHead one({-30000, 30000, 29999, -60000, 100}, 3, [](uint32_t p, uint32_t) { return float(p); });
  const double e = std::exp(-1.0);  // to_f16(29999) is 30000
  one.want.assign(OneHead::dim, to_f32(to_f16(29999.0)) == 30000 ? 1.5 : (1 + 2 * e) / (1 + e));
  each_kind([&](const auto& spec) {
    for (float x : one.out(spec)) ASSERT_NEAR(x, one.want[0], 1e-5) << field_text(spec);
  });
}

TEST(Attention, NoPositionsGiveZeros) {
  each_kind([](const auto& spec) {
    OneHead one({}, 0, [](uint32_t, uint32_t) { return 1.0f; });
    EXPECT_EQ(one.out(spec), std::vector<float>(OneHead::dim, 0.0f)) << field_text(spec);
  });
}

TEST(Attention, NoSequencesTouchNothing) {
  OneHead one({1, 2}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  one.args.sequences = 0;
  each_kind([&](const auto& spec) {
    if constexpr (requires { spec.split; })
      if (spec.split) return;
    for (float x : one.out(spec)) {
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      ASSERT_EQ(bits, 0xccccccccu) << field_text(spec);
    }
  });
}

// The cache begins so far before the buffer that only 64-bit offsets lead back into it.
TEST(Attention, LongSequencesAndManyPagesNeed64Bits) {
  const std::vector<float> scores(16, 0.0f);
  OneHead one(scores, 0, [](uint32_t p, uint32_t) { return float(p); });
  const uint64_t row = OneHead::dim * 2;
  auto before = [](ptx::DevicePtr<uint8_t> p, uint64_t bytes) { return ptx::DevicePtr<uint8_t>{p.address - bytes}; };

  const auto small = one.args;
  one.args.length = 0x7ffffff0;
  one.args.window = 16;  // the last 16 of 2^31 positions
  one.args.k = before(small.k, (one.args.length - 16) * row);
  one.args.v = before(small.v, (one.args.length - 16) * row);
  EXPECT_EQ(one.out(Attention{.head_dim = OneHead::dim, .window = 1}), std::vector<float>(OneHead::dim, 7.5f));
  EXPECT_EQ(one.out(Attention{.head_dim = OneHead::dim, .warps = 2, .split = 1, .window = 1}),
            std::vector<float>(OneHead::dim, 7.5f));
  EXPECT_EQ(one.out(ClusterAttention{.head_dim = OneHead::dim, .length = length_direct, .splits = 2, .window = 1}),
            std::vector<float>(OneHead::dim, 7.5f));

  one.args = small;
  const uint64_t page = 0x7ffffff1;
  one.args.page_size = 16;
  one.args.table = one.memory.put(std::vector{int32_t(page)});
  one.args.k = before(small.k, page * 16 * row);
  one.args.v = before(small.v, page * 16 * row);
  EXPECT_EQ(one.out(Attention{.head_dim = OneHead::dim, .layout = kv_paged}), std::vector<float>(OneHead::dim, 7.5f));
  EXPECT_EQ(
      one.out(ClusterAttention{.head_dim = OneHead::dim, .layout = kv_paged, .length = length_direct, .splits = 2}),
      std::vector<float>(OneHead::dim, 7.5f));
}

bool has_wait(ptx::Block& block) { return first_wait(block) != nullptr; }

// The kernel after the next one relies on this one having waited, whatever it had to do.
TEST(Attention, WaitsWithoutSequencesToo) {
  auto check = [](ptx::Kernel kernel, const std::string& text) {
    for (ptx::Inst& inst : kernel.body) EXPECT_EQ(has_wait(inst.body), has_wait(inst.otherwise)) << text;
    EXPECT_TRUE(has_wait(kernel.body)) << text;
  };
  each_kind([&](auto spec) {
    spec.chained = 1;
    check(spec.build(), field_text(spec));
  });
}

TEST(Attention, RefusesWhatItCannotDo) {
  EXPECT_THROW(Attention{.head_dim = 48}.build(), Error);
  EXPECT_THROW(Attention{.warps = 0}.build(), Error);
  OneHead one({1}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  auto refused = [&](Attention spec, auto&& change) {
    Attention::Args args = one.args;
    EXPECT_NO_THROW(spec.grid(args));
    change(args);
    EXPECT_THROW(spec.grid(args), Error) << field_text(spec);
  };
  refused({}, [](auto& a) { a.kv_heads = 0; });
  refused({}, [](auto& a) { a.heads = 0; });
  refused({}, [](auto& a) {
    a.heads = 3;
    a.kv_heads = 2;
  });
  refused({}, [](auto& a) { a.sequences = 2; });
  refused({}, [](auto& a) { a.k.address += 8; });
  refused({}, [](auto& a) { a.q.address += 4; });
  refused({.layout = kv_batched}, [](auto& a) { a.sequences = 65536; });
  refused({.layout = kv_paged}, [](auto& a) { a.page_size = 24; });
  refused({.layout = kv_paged}, [](auto& a) { a.page_size = 0; });
  refused({.split = 1}, [](auto& a) { a.chunk = 0; });
  refused({.split = 1}, [](auto& a) { a.chunks = 0; });
  one.args.window = 1;
  one.args.softcap = 1;
  refused({.window = 1}, [](auto& a) { a.window = 0; });
  refused({.softcap = 1}, [](auto& a) { a.softcap = 0; });
  EXPECT_THROW(FlashDecodingReduce{}.grid({.out = {}, .partial = {}, .sequences = 1, .heads = 0, .chunks = 1}), Error);
}

}  // namespace

// What any_attention refuses: shapes, strides and alignments.

namespace {

TEST(AnyAttention, RefusesShapesStridesAndAlignments) {
  auto said = [](auto&& change, const AnyAttention& spec = {}) {
    AnyAttention::Args a{};
    a.rows = 2;
    a.heads = 6;
    a.kv_heads = 2;
    a.head = 64;
    a.value_head = 32;
    a.q_stride = 384;
    a.out_stride = 192;
    a.page_size = 16;
    a.table_stride = 4;
    change(a);
    return refusal(spec, a);
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_EQ(said([](auto& a) { a.head = 65; }, {.vec = 2}),
            "any_attention: heads of 65 and 32 values are not multiples of vec = 2");
  EXPECT_EQ(said([](auto& a) { a.head = 129; }, {.largest = 128}),
            "any_attention: heads of 129 values, 1 to 128 expected");
  EXPECT_EQ(said([](auto& a) { a.k = {4}; }, {.vec = 4}),
            "any_attention: with vec = 4 the cache must be 8-byte aligned");
  EXPECT_EQ(said([](auto& a) { a.k = {4}; }, {.vec = 2}), "");
  EXPECT_EQ(said([](auto& a) { a.out_stride = 191; }),
            "any_attention: out has a stride of 191, but rows of 192 values");
  EXPECT_NE(said([](auto& a) { a.q_stride = 383; }), "");
  EXPECT_EQ(said([](auto&) {}, {.softcap = 1}), "any_attention: softcap = 0, but it must be positive");
  EXPECT_NE(said([](auto& a) {
              a.heads = 65536;
              a.rows = 1;
            }),
            "");
  EXPECT_THROW((AnyAttention{.largest = 100}.build()), Error);
  EXPECT_EQ(said([](auto& a) { a.head = 36; }, {.vec = 4, .kv = kv_q8}),
            "any_attention: heads of 36 values, but a q8 cache has a scale for each 32");
  EXPECT_THROW((AnyAttention{.vec = 2, .kv = kv_q8}.build()), Error);
}

}  // namespace

}  // namespace heddle::kernels

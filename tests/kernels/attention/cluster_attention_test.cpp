// What is easy to get wrong in attention, each by value: a maximum that rises with every position, sums that only some
// lanes hold, no positions at all, offsets beyond 32 bits. What cluster_attention fetches before it waits, the shapes
// that are chosen for it, and what it refuses. The sweep over shapes is in src/proof.
#include "kernels/attention/cluster_attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/attention/one_head.h"
#include "tests/kernels/refusal.h"
#include "tests/kernels/small_gpus.h"

namespace heddle::kernels {
namespace {

TEST(ClusterAttention, TheMaximumMayRiseWithEveryPosition) {
  for (float step : {0.25f, 1.0f, -1.0f}) {
    std::vector<float> scores;
    for (int p = 0; p < 100; ++p) scores.push_back(float(p) * step * 0.5f);
    OneHead one(scores, 0, [](uint32_t p, uint32_t i) { return float((p * 7 + i) % 16) - 7; });
    for (const ClusterAttention& spec : cluster_kinds) {
      const std::vector<float> got = one.out(spec);
      for (uint32_t i = 0; i < OneHead::dim; ++i)
        ASSERT_NEAR(got[i], one.want[i], 1e-5) << field_text(spec) << " value " << i;
    }
  }
}

// Whichever lane holds the only product that is not 0, every value of the row is weighted with it.
TEST(ClusterAttention, EveryLaneHasTheWholeScore) {
  for (uint32_t carrier : {0u, 7u, 8u, 31u, 40u, 63u}) {
    OneHead one({0.5f, 2, -1, 3, 0, 1, 1, -2, 2.5f}, carrier,
                [](uint32_t p, uint32_t i) { return float(p) + 0.25f * float(i % 8); });
    for (const ClusterAttention& spec : cluster_kinds) {
      const std::vector<float> got = one.out(spec);
      for (uint32_t i = 0; i < OneHead::dim; ++i)
        ASSERT_NEAR(got[i], one.want[i], 1e-5) << field_text(spec) << " value " << i;
    }
  }
}

TEST(ClusterAttention, ScoresFarApartNeitherOverflowNorVanish) {
  OneHead one({-30000, 30000, 29999, -60000, 100}, 3, [](uint32_t p, uint32_t) { return float(p); });
  const double e = std::exp(-1.0);  // to_f16(29999) is 30000
  one.want.assign(OneHead::dim, to_f32(to_f16(29999.0)) == 30000 ? 1.5 : (1 + 2 * e) / (1 + e));
  for (const ClusterAttention& spec : cluster_kinds)
    for (float x : one.out(spec)) ASSERT_NEAR(x, one.want[0], 1e-5) << field_text(spec);
}

TEST(ClusterAttention, NoPositionsGiveZeros) {
  for (const ClusterAttention& spec : cluster_kinds) {
    OneHead one({}, 0, [](uint32_t, uint32_t) { return 1.0f; });
    EXPECT_EQ(one.out(spec), std::vector<float>(OneHead::dim, 0.0f)) << field_text(spec);
  }
}

// The sink is one score of the softmax however many warps, blocks and clusters share the positions, and the only one
// where there are none. Weights of less than 2^-28 of the largest vanish.
TEST(ClusterAttention, ASinkCountsOnce) {
  for (float sink : {-3.0f, 0.0f, 2.0f, 60.0f}) {
    const std::vector<float> scores{0.5f, 2, -1, 3, 0, 1, 1, -2, 2.5f};
    OneHead one(scores, 0, [](uint32_t p, uint32_t) { return float(p) + 1; });
    OneHead none({}, 0, [](uint32_t, uint32_t) { return 1.0f; });
    double sum = std::exp(double(sink)), want = 0;
    for (size_t p = 0; p < scores.size(); ++p) {
      sum += std::exp(double(scores[p]));
      want += std::exp(double(scores[p])) * double(p + 1);
    }
    one.args.sinks = one.memory.put(std::vector{sink});
    none.args.sinks = none.memory.put(std::vector{sink});
    for (ClusterAttention spec : cluster_kinds) {
      spec.sinks = 1;
      for (float x : one.out(spec)) ASSERT_NEAR(x, want / sum, 1e-5 * want / sum + 1e-8) << field_text(spec) << sink;
      EXPECT_EQ(none.out(spec), std::vector<float>(OneHead::dim, 0.0f)) << field_text(spec);
    }
  }
}

TEST(ClusterAttention, NoSequencesTouchNothing) {
  OneHead one({1, 2}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  one.args.sequences = 0;
  for (const ClusterAttention& spec : cluster_kinds)
    for (float x : one.out(spec)) {
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      ASSERT_EQ(bits, 0xccccccccu) << field_text(spec);
    }
}

// The cache begins so far before the buffer that only 64-bit offsets lead back into it.
TEST(ClusterAttention, LongSequencesAndManyPagesNeed64Bits) {
  const std::vector<float> scores(16, 0.0f);
  OneHead one(scores, 0, [](uint32_t p, uint32_t) { return float(p); });
  const uint64_t row = OneHead::dim * 2;
  auto before = [](ptx::DevicePtr<uint8_t> p, uint64_t bytes) { return ptx::DevicePtr<uint8_t>{p.address - bytes}; };

  const auto small = one.args;
  one.args.length = 0x7ffffff0;
  one.args.window = 16;  // the last 16 of 2^31 positions
  one.args.k = before(small.k, (one.args.length - 16) * row);
  one.args.v = before(small.v, (one.args.length - 16) * row);
  EXPECT_EQ(one.out(ClusterAttention{.head_dim = OneHead::dim, .length = length_direct, .splits = 2, .window = 1}),
            std::vector<float>(OneHead::dim, 7.5f));

  one.args = small;
  const uint64_t page = 0x7ffffff1;
  one.args.page_size = 16;
  one.args.table = one.memory.put(std::vector{int32_t(page)});
  one.args.k = before(small.k, page * 16 * row);
  one.args.v = before(small.v, page * 16 * row);
  EXPECT_EQ(
      one.out(ClusterAttention{.head_dim = OneHead::dim, .layout = kv_paged, .length = length_direct, .splits = 2}),
      std::vector<float>(OneHead::dim, 7.5f));
}

bool has_wait(ptx::Block& block) { return first_wait(block) != nullptr; }

// The kernel after the next one relies on this one having waited, whatever it had to do.
TEST(ClusterAttention, WaitsWithoutSequencesToo) {
  auto check = [](ptx::Kernel kernel, const std::string& text) {
    for (ptx::Inst& inst : kernel.body) EXPECT_EQ(has_wait(inst.body), has_wait(inst.otherwise)) << text;
    EXPECT_TRUE(has_wait(kernel.body)) << text;
  };
  for (ClusterAttention spec : cluster_kinds) {
    spec.chained = 1;
    check(spec.build(), field_text(spec));
  }
}

// Before the wait everything but the new position is fetched: the kernel ends there by a trap, and the last row of the
// cache (or, to see that something is fetched at all, every row) lies outside the buffer.
TEST(ClusterAttention, FetchesAllButTheNewPositionEarly) {
  const ClusterAttention spec{.head_dim = OneHead::dim, .splits = 1, .rows = 2, .stages = 4, .warps = 1, .chained = 1};
  ptx::Kernel kernel = spec.build();
  ptx::Inst* wait = first_wait(kernel.body);
  ASSERT_NE(wait, nullptr);
  wait->op = ptx::Op::trap;
  auto ends_by = [&](uint32_t length, uint32_t rows) {
    OneHead one(std::vector<float>(rows, 0.0f), 0, [](uint32_t, uint32_t) { return 1.0f; });
    auto args = one.args;
    args.lengths = one.memory.put(std::vector{int32_t(length)});
    try {
      ptx::interpret(kernel, spec.grid(args), args, one.memory);
    } catch (const ptx::Report& report) {
      return report.kind;
    }
    throw Error("nothing was reported");
  };
  for (uint32_t length : {1u, 16u, 17u, 49u}) EXPECT_EQ(ends_by(length, length - 1), ptx::Report::Kind::trap) << length;
  for (uint32_t length : {2u, 16u, 17u, 49u})
    EXPECT_EQ(ends_by(length, length - 2), ptx::Report::Kind::out_of_bounds) << length;
  EXPECT_EQ(ends_by(65, 64), ptx::Report::Kind::trap);  // the fifth stage must wait for its place
  EXPECT_EQ(ends_by(66, 64), ptx::Report::Kind::trap);
  EXPECT_EQ(ends_by(66, 63), ptx::Report::Kind::out_of_bounds);
}

TEST(ClusterAttention, TheChoiceFillsTheGpu) {
  for (uint32_t head_dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u, 512u})
    for (uint32_t kv_heads : {1u, 2u, 8u, 32u})
      for (uint32_t sequences : {0u, 1u, 4u, 100u})
        for (uint32_t length : {0u, 512u, 5000u, 100000u}) {
          const auto [spec, clusters] = cluster_choice(head_dim, kv_heads, sequences, length, 132);
          EXPECT_LE(spec.stages * spec.stage_bytes(), 160 * 1024) << field_text(spec);
          EXPECT_TRUE(clusters == 1 || (spec.merge && kv_heads * sequences * spec.splits * clusters <= 132))
              << field_text(spec);
        }
  const auto [spec, clusters] = cluster_choice(128, 8, 1, 32768, 132);
  EXPECT_EQ(spec.splits * clusters, 16u);
}

TEST(ClusterAttention, TheChoiceFitsSmallerGpus) {
  for (const SmallGpu& gpu : small_gpus())
    for (uint32_t head_dim : {64u, 96u, 128u, 256u, 512u})
      for (uint32_t sequences : {1u, 40u})
        for (uint32_t length : {1u, 512u, 100000u})
          for (bool steady : {false, true}) {
            if (!cluster_fits_heads(head_dim, gpu.limits)) {
              EXPECT_EQ(head_dim, 512u);
              EXPECT_THROW(steady_cluster_choice(head_dim, gpu.limits), Error);
              continue;
            }
            const auto [f16, clusters] = steady ? steady_cluster_choice(head_dim, gpu.limits)
                                                : cluster_choice(head_dim, 8, sequences, length, 40, gpu.limits);
            for (ClusterAttention spec : {f16, as_q8(f16)}) {
              spec.layout = kv_paged;
              const uint32_t shared = spec.build().shared_bytes;
              EXPECT_LE(shared, gpu.limits.shared_per_block) << gpu.target << " " << field_text(spec);
              EXPECT_LE(shared, spec.shared_bytes()) << field_text(spec);
              EXPECT_TRUE(clusters == 1 || 8 * sequences * spec.splits * clusters <= 40) << field_text(spec);
            }
          }
}

// Sequences that fill the SMs several times are not split, unless one is so long that it would end long after the
// others.
TEST(ClusterAttention, TheChoiceForACrowd) {
  for (uint32_t length : {576u, 1088u, 4096u}) {
    const auto [spec, clusters] = cluster_choice(128, 8, 64, length, 132);
    EXPECT_EQ(spec.splits * clusters, 1u) << length;
    EXPECT_LE(spec.stages * spec.stage_bytes(), 70u * 1024) << length;  // three blocks on an SM
  }
  EXPECT_EQ(cluster_choice(128, 8, 64, 4097, 132).spec.splits, 4u);
  EXPECT_EQ(cluster_choice(128, 8, 64, 16385, 132).spec.splits, 8u);
}

// As few groups as there can be, none of them empty.
TEST(ClusterAttention, QueryHeadsOfAKvHeadAreGroupsOfUpToEight) {
  for (uint32_t of_one = 1; of_one <= 200; ++of_one) {
    const uint32_t groups = cluster_groups(3 * of_one, 3), size = (of_one + groups - 1) / groups;
    EXPECT_LE(size, 8u) << of_one;
    EXPECT_LT((groups - 1) * size, of_one);
    EXPECT_GT(of_one, (groups - 1) * 8);
  }
}

TEST(ClusterAttention, GroupsAssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<SmallGpu> gpus = small_gpus();
  gpus.push_back({"sm_90a", {}});
  for (const auto& [target, limits] : gpus) {
    std::vector<ClusterAttention> specs;
    for (uint32_t size : {64u, 128u, 512u})
      for (uint32_t length : {100u, 6000u}) {
        if (!cluster_fits_heads(size, limits)) continue;
        ClusterAttention spec = cluster_choice(size, 16, 1, length, 132, limits).spec;
        spec.layout = kv_paged;
        spec.grouped = 1;
        specs.push_back(spec);
        spec.mapped = 1;
        specs.push_back(as_q8(spec));
      }
    expect_no_spills(specs, target);
  }
}

// A q8 cache has as many bytes in flight as an f16 one, in pieces whose scales can be copied.
TEST(ClusterAttention, ShapesForQ8KeepTheirBytes) {
  for (uint32_t size : {64u, 96u, 128u, 160u, 192u, 256u})
    for (uint32_t rows : {2u, 4u, 8u, 16u})
      for (uint32_t stages : {1u, 3u, 8u}) {
        const ClusterAttention given{.head_dim = size, .layout = kv_paged, .splits = 2, .rows = rows, .stages = stages};
        const ClusterAttention q8 = as_q8(given);
        EXPECT_EQ(q8.kv, uint32_t(kv_q8));
        EXPECT_EQ(q8.rows * size % 256, 0u);
        const uint32_t bytes = given.stages * given.stage_bytes(), now = q8.stages * q8.stage_bytes();
        EXPECT_LE(now, std::max(bytes, q8.stage_bytes())) << field_text(q8);
        EXPECT_TRUE(now + q8.stage_bytes() > bytes || q8.stages == 16) << field_text(q8);
      }
  for (uint32_t size : {64u, 80u, 128u, 256u}) EXPECT_EQ(steady_cluster_choice(size).clusters, 1u);
}

TEST(ClusterAttention, RefusesCachesWindowsAndSoftcaps) {
  OneHead one({1}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  one.args.window = 1;
  one.args.softcap = 1;
  auto said = [&](const ClusterAttention& spec, auto&& change) {
    ClusterAttention::Args args = one.args;
    EXPECT_EQ(refusal(spec, args), "");
    change(args);
    return refusal(spec, args);
  };
  EXPECT_EQ(said({}, [](auto& a) { a.kv_heads = 0; }),
            "cluster_attention: 1 heads are not a positive multiple of 0 kv heads");
  EXPECT_NE(said({}, [](auto& a) { a.heads = 0; }), "");
  EXPECT_EQ(said({},
                 [](auto& a) {
                   a.heads = 3;
                   a.kv_heads = 2;
                 }),
            "cluster_attention: 3 heads are not a positive multiple of 2 kv heads");
  EXPECT_EQ(said({}, [](auto& a) { a.sequences = 2; }),
            "cluster_attention: 2 sequences, but the layout \"single\" has one");
  EXPECT_EQ(said({}, [](auto& a) { a.k.address += 8; }), "cluster_attention: k and v must be 16-byte aligned");
  EXPECT_EQ(said({.layout = kv_batched}, [](auto& a) { a.sequences = 65536; }),
            "cluster_attention: 65536 sequences, but a grid has at most 65535");
  for (uint32_t size : {0u, 24u})
    EXPECT_EQ(
        said({.layout = kv_paged}, [&](auto& a) { a.page_size = size; }),
        fmt::format("cluster_attention: pages of {} positions, but they must be a positive multiple of 16", size));
  EXPECT_EQ(said({.window = 1}, [](auto& a) { a.window = 0; }),
            "cluster_attention: a window of 0 positions, but it must have one or more");
  EXPECT_EQ(said({.softcap = 1}, [](auto& a) { a.softcap = 0; }),
            "cluster_attention: softcap = 0, but it must be positive");
  EXPECT_EQ(refusal(ClusterAttention{.chunk = 1}, one.args),
            "cluster_attention: chunks of 0 positions, but a token sees itself");
  EXPECT_EQ(refusal(ClusterAttention{.sinks = 1}, one.args),
            "cluster_attention: no sinks, but one for each head is read");
  EXPECT_EQ(refusal(ClusterAttention{.slopes = 1}, one.args),
            "cluster_attention: no slopes, but one for each head is read");
}

TEST(ClusterAttention, RefusesWhatItCannotDo) {
  OneHead one({1}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  ClusterAttention::Args args = one.args;
  EXPECT_NO_THROW(ClusterAttention{}.grid(args));
  args.heads = 9;
  EXPECT_EQ(refusal(ClusterAttention{}, args),
            "cluster_attention: 9 heads for 1 kv heads, but there may be at most 8 for one");
  for (uint32_t groups : {0u, 1u, 4u, 6u, 10u}) {  // 4: of 3, 3, 3 and 0; 6: of 2 and 1, and 0
    args.groups = groups;
    EXPECT_EQ(refusal(ClusterAttention{.grouped = 1}, args),
              fmt::format("cluster_attention: {} groups of the 9 heads of a kv head, but they must have 1 to 8 heads "
                          "each",
                          groups));
  }
  for (uint32_t groups : {2u, 3u, 5u, 9u}) {
    args.groups = groups;
    EXPECT_EQ(ClusterAttention{.grouped = 1}.grid(args).x, groups * 16);
  }
  args = one.args;
  args.out.address += 8;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  args = one.args;
  args.clusters = 2;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  EXPECT_NO_THROW(ClusterAttention{.merge = 1}.grid(args));
  args.clusters = 0;
  EXPECT_THROW(ClusterAttention{.merge = 1}.grid(args), Error);
  EXPECT_THROW((ClusterAttention{.rows = 4, .warps = 4}.build()), Error);
  const ClusterAttention q8{.kv = kv_q8, .layout = kv_paged, .splits = 2};
  EXPECT_NO_THROW(q8.build());
  auto cannot = [&](auto&& change) {
    ClusterAttention spec = q8;
    change(spec);
    EXPECT_THROW(spec.build(), Error) << field_text(spec);
  };
  cannot([](auto& s) { s.layout = kv_single; });
  cannot([](auto& s) { s.kv = kv_q8 + 1; });
  cannot([](auto& s) { s.head_dim = 80; });
  cannot([](auto& s) {
    s.head_dim = 96;
    s.rows = 4;
    s.warps = 2;
  });  // scales of a piece: 24 bytes
  cannot([](auto& s) {
    s.kv = kv_f16;
    s.layout = kv_batched;
    s.mapped = 1;
  });
  args = one.args;
  args.page_size = 16;
  EXPECT_NO_THROW(q8.grid(args));
  args.v_scale.address = 8;
  EXPECT_THROW(q8.grid(args), Error);
  args = one.args;
  args.q_stride = 129;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  EXPECT_THROW((ClusterAttention{.splits = 3}.build()), Error);
  EXPECT_THROW((ClusterAttention{.head_dim = 192, .rows = 16, .warps = 8}.build()), Error);
}

}  // namespace
}  // namespace heddle::kernels

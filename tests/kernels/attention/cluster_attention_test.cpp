// What cluster_attention fetches before it waits, the shapes that are chosen for it, and what it refuses.
#include "kernels/attention/cluster_attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/attention/one_head.h"
#include "tests/kernels/small_gpus.h"

namespace heddle::kernels {
namespace {

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
    auto args = one.cluster_args();
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
  for (uint32_t head_dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u})
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
    for (uint32_t head_dim : {64u, 96u, 128u, 256u})
      for (uint32_t sequences : {1u, 40u})
        for (uint32_t length : {1u, 512u, 100000u})
          for (bool steady : {false, true}) {
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

TEST(ClusterAttention, RefusesWhatItCannotDo) {
  OneHead one({1}, 0, [](uint32_t, uint32_t) { return 1.0f; });
  ClusterAttention::Args args = one.cluster_args();
  EXPECT_NO_THROW(ClusterAttention{}.grid(args));
  args.heads = 9;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  args = one.cluster_args();
  args.out.address += 8;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  args = one.cluster_args();
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
  cannot([](auto& s) { s.kv = kv_f32; });
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
  args = one.cluster_args();
  args.page_size = 16;
  EXPECT_NO_THROW(q8.grid(args));
  args.v_scale.address = 8;
  EXPECT_THROW(q8.grid(args), Error);
  args = one.cluster_args();
  args.q_stride = 129;
  EXPECT_THROW(ClusterAttention{}.grid(args), Error);
  EXPECT_THROW((ClusterAttention{.splits = 3}.build()), Error);
  EXPECT_THROW((ClusterAttention{.head_dim = 192, .rows = 16, .warps = 8}.build()), Error);
}

}  // namespace
}  // namespace heddle::kernels

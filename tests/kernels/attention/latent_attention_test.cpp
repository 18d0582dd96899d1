// What the kernels of latent attention refuse, and the shapes that GPUs take.
#include "kernels/attention/latent_attention.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(LatentAttention, RefusesWhatItCannotTake) {
  EXPECT_EQ(refusal(LatentQueries{}, {.rows = 1, .heads = 1}), "latent_queries: pages of 0 positions");
  EXPECT_EQ(refusal(LatentAttention{}, {.rows = 1, .heads = 1}), "latent_attention: pages of 0 positions");
  EXPECT_EQ(refusal(LatentAttention{}, {.rows = 1, .heads = 1, .page_size = 16, .splits = 65}),
            "latent_attention: 65 ranges, 1 to 64 expected");
  EXPECT_EQ(refusal(LatentValues{}, {.rows = 2, .heads = 2, .out_stride = 254}),
            "latent_values: out has a stride of 254, but rows of 256 values");
  EXPECT_EQ(refusal(LatentValues{}, {.rows = 2, .heads = 2, .out_stride = 257}),
            "latent_values: out has a stride of 257, an even number expected");
  EXPECT_THROW((LatentAttention{.rank = 24}.build()), Error);
  EXPECT_EQ(refused([] { LatentAttention{.stages = 3, .cache = kv_q8}.build(); }),
            "latent_attention: 3 stages of a q8 cache, 1 or 2 expected");
}

TEST(LatentAttention, FitsTheSharedMemoryOfEveryGpu) {
  EXPECT_EQ(latent_choice(512, 64), (LatentAttention{.positions = 64, .stages = 2}));
  for (const uint32_t bytes : {227u * 1024, 163u * 1024, 99u * 1024, 64u * 1024}) {
    const LatentAttention spec = latent_choice(512, 64, {.shared_per_block = bytes});
    EXPECT_LE(spec.build().shared_bytes, bytes);
  }
  EXPECT_THROW(latent_choice(1024, 64, {.shared_per_block = 64 * 1024}), Error);
}

TEST(LatentAttention, DividesPositionsWhereBlocksAreFew) {
  const LatentAttention spec = latent_choice(512, 64);
  EXPECT_EQ(latent_splits(spec, 1, 16, 64, 132), 1u);
  EXPECT_EQ(latent_splits(spec, 1, 16, 6400, 132), 64u);
  EXPECT_EQ(latent_splits(spec, 8, 16, 6400, 132), 16u);
  EXPECT_EQ(latent_splits(spec, 1, 128, 6400, 132), 16u);
  EXPECT_EQ(latent_splits(spec, 200, 16, 6400, 132), 1u);
}

TEST(LatentAttention, AssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  const std::pair<const char*, uint32_t> targets[] = {
      {"sm_75", 64}, {"sm_80", 163}, {"sm_86", 99}, {"sm_90a", 227}, {"sm_120", 99}};
  for (const auto& [target, kib] : targets) {
    const GpuLimits gpu{.shared_per_block = kib * 1024};
    std::vector<LatentAttention> attention;
    for (uint32_t cache : {kv_f16, kv_q8})
      for (uint32_t rank : {256u, 512u}) {
        attention.push_back(latent_choice(rank, rank / 8, gpu));
        attention.back().cache = cache;
      }
    expect_no_spills(attention, target);
    expect_no_spills<LatentQueries>({{}, {.tiles = 4, .temperature = 1}, {.cache = kv_q8}}, target);
    expect_no_spills<LatentValues>({latent_values_choice(512, 128, 1, gpu), latent_values_choice(512, 128, 64, gpu)},
                                   target);
  }
}

}  // namespace
}  // namespace heddle::kernels

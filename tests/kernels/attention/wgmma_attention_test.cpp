// What wgmma_attention refuses, and that its choices fit, do not spill and keep the matrix units busy.
#include "kernels/attention/wgmma_attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(WgmmaAttention, RefusesWithTheFieldAndWhatItMustBe) {
  auto grid = [&](auto&& change) {
    WgmmaAttention::Args args{};
    args.tile_count = 2;
    args.heads = 4;
    args.kv_heads = 2;
    args.q_stride = args.out_stride = 512;
    args.page_size = 16;
    change(args);
    return refusal(WgmmaAttention{}, args);
  };
  EXPECT_EQ(grid([](auto&) {}), "");
  EXPECT_EQ(grid([](auto& a) { a.heads = 5; }), "wgmma_attention: 5 heads are not a positive multiple of 2 kv heads");
  EXPECT_EQ(grid([](auto& a) { a.tile_count = 0x40000000; }),
            "wgmma_attention: 4294967296 blocks, but a grid has at most 2147483647");
  EXPECT_EQ(refused([] { WgmmaAttention{.head_dim = 80, .kv = kv_q8}.build(); }),
            "wgmma_attention: heads of 80 values of a q8 cache, a multiple of 32 expected");
  EXPECT_EQ(refused([] { WgmmaAttention{.head_dim = 192, .value_dim = 128, .positions = 32, .kv = kv_q8}.build(); }),
            "wgmma_attention: keys of 192 and values of 128 from a q8 cache, one size expected");
  EXPECT_EQ(refused([] { WgmmaAttention{.head_dim = 128, .positions = 128, .stages = 4}.build(); }),
            "wgmma_attention: 4 stages of 128 positions with heads of 128 need 295040 bytes of shared memory, but a "
            "block has 232448");
  EXPECT_EQ(refused([] { WgmmaAttention{.head_dim = 128, .positions = 192}.build(); }),
            "wgmma_attention: 192 positions with heads of 128 take 208 registers of a thread for sums, scores and "
            "weights, but there are 192");
}

TEST(WgmmaAttention, TakesAsManyPositionsAsFit) {
  const std::pair<uint32_t, uint32_t> sizes[] = {{64, 128}, {80, 128}, {128, 128}, {160, 96},
                                                 {192, 96}, {256, 64}, {512, 32}};
  for (const auto& [dim, positions] : sizes) {
    EXPECT_EQ(wgmma_choice(dim).positions, positions) << dim;
    EXPECT_EQ(wgmma_choice(dim, dim), wgmma_choice(dim));
  }
  EXPECT_EQ(wgmma_choice(192, 128).positions, 128u);  // of DeepSeek's heads
  EXPECT_EQ(wgmma_choice(64, 256).positions, 64u);
}

TEST(WgmmaAttention, ChoicesAssembleWithoutSpillsOrSerialisation) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<WgmmaAttention> specs;
  for (uint32_t dim : {64u, 80u, 128u, 160u, 192u, 256u, 512u}) {
    WgmmaAttention spec = wgmma_choice(dim);
    spec.chained = 1;
    specs.push_back(spec);
    if (dim % 32) continue;
    spec.kv = kv_q8;
    spec.window = spec.softcap = 1;
    specs.push_back(spec);
  }
  for (const auto& [dim, values] : {std::pair{192u, 128u}, {64u, 256u}}) specs.push_back(wgmma_choice(dim, values));
  const std::vector<Assembled> all = expect_no_spills(specs, "sm_90a");
  for (size_t i = 0; i < all.size(); ++i) EXPECT_FALSE(all[i].serialized) << field_text(specs[i]) << "\n" << all[i].log;
}

}  // namespace
}  // namespace heddle::kernels

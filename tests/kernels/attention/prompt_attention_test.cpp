// What prompt_attention refuses, and that what is chosen for a size fits and does not spill.
#include "kernels/attention/prompt_attention.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

TEST(PromptAttention, RefusesWithTheFieldAndWhatItMustBe) {
  const PromptAttention spec{.window = 1};
  auto grid = [&](auto&& change) {
    PromptAttention::Args args{};
    args.tile_count = 2;
    args.heads = 4;
    args.kv_heads = 2;
    args.q_stride = args.out_stride = 512;
    args.page_size = 16;
    args.window = 1;
    change(args);
    return refused([&] { spec.grid(args); });
  };
  EXPECT_EQ(grid([](auto&) {}), "");
  EXPECT_EQ(grid([](auto& a) { a.heads = 5; }), "prompt_attention: 5 heads are not a positive multiple of 2 kv heads");
  EXPECT_EQ(grid([](auto& a) { a.page_size = 24; }),
            "prompt_attention: pages of 24 positions, but they must be a positive multiple of 16");
  EXPECT_EQ(grid([](auto& a) { a.window = 0; }), "prompt_attention: a window of 0 positions, but a token sees itself");
  EXPECT_EQ(grid([](auto& a) { a.v.address = 8; }), "prompt_attention: k, v and tiles must be 16-byte aligned");
  EXPECT_EQ(grid([](auto& a) { a.q_stride = 513; }),
            "prompt_attention: rows of q and out must be 8-byte aligned; strides are 513 and 512");
  EXPECT_EQ(grid([](auto& a) { a.out_stride = 510; }),
            "prompt_attention: strides of 512 and 510 are too small for 4 heads of 128");
  EXPECT_EQ(grid([](auto& a) { a.tile_count = 0x40000000; }),
            "prompt_attention: 4294967296 blocks, but a grid has at most 2147483647");
  auto features = [](const PromptAttention& with) {
    PromptAttention::Args args{};
    args.tile_count = args.heads = args.kv_heads = 1;
    args.q_stride = args.out_stride = 128;
    args.page_size = 16;
    return refused([&] { with.grid(args); });
  };
  EXPECT_EQ(features({}), "");
  EXPECT_EQ(features({.softcap = 1}), "prompt_attention: softcap = 0, but it must be positive");
  EXPECT_EQ(features({.chunk = 1}), "prompt_attention: chunks of 0 positions, but a token sees itself");
  EXPECT_EQ(features({.sinks = 1}), "prompt_attention: no sinks, but one for each head is read");
  EXPECT_EQ(features({.slopes = 1}), "prompt_attention: no slopes, but one for each head is read");
  EXPECT_EQ(features({.bidirectional = 1}), "prompt_attention: no lengths, but that of each tile's text is read");
  EXPECT_EQ(refused([] { PromptAttention{.queries = 128, .positions = 16}.build(); }),
            "prompt_attention: 256 threads copy 32 positions at a time, but a step has 16");
  EXPECT_EQ(refused([] { PromptAttention{.head_dim = 80, .kv = kv_q8}.build(); }),
            "prompt_attention: heads of 80 values of a q8 cache, a multiple of 32 expected");
  EXPECT_EQ(refused([] {
              PromptAttention::Args args{};
              args.heads = args.kv_heads = 1;
              args.q_stride = args.out_stride = 128;
              args.page_size = 16;
              args.k_scale.address = 8;
              PromptAttention{.kv = kv_q8}.grid(args);
            }),
            "prompt_attention: k_scale and v_scale must be 16-byte aligned");
}

TEST(PromptAttention, ChoosesWhatFits) {
  EXPECT_EQ(prompt_choice(128, 1, 0).queries, 16u);
  EXPECT_EQ(prompt_choice(128, 17, 0).queries, 32u);
  EXPECT_EQ(prompt_choice(128, 5000, 0).queries, 64u);
  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u})
    for (uint32_t shared : {232'448u, 101'376u, 65'536u})
      for (uint32_t exact_q : {0u, 1u}) {
        if (exact_q && dim == 256 && shared < 80'000) continue;  // q alone has 64 KB
        EXPECT_LE(prompt_choice(dim, 512, exact_q, shared).shared_bytes(), shared) << dim;
      }
  EXPECT_EQ(refused([] { prompt_choice(256, 512, 0, 10'000); }),
            "prompt_attention: 10000 bytes of shared memory are not enough for heads of 256");
}

TEST(PromptAttention, ChoicesAssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<PromptAttention> sm_80, sm_90a;
  for (uint32_t dim : {64u, 128u, 256u, 512u})
    for (uint32_t more : {0u, 1u}) {
      PromptAttention spec = prompt_choice(dim, 512, more);
      spec.window = spec.softcap = more;
      spec.chained = 1;
      sm_90a.push_back(spec);
      PromptAttention features = spec;
      features.sinks = 1;
      features.bidirectional = more;
      sm_90a.push_back(features);
      spec.chained = 0;
      if (dim <= 128) sm_80.push_back(spec);
      spec.kv = kv_q8;
      sm_80.push_back(spec);
    }
  expect_no_spills(sm_80, "sm_80");
  expect_no_spills(sm_90a, "sm_90a");
}

}  // namespace
}  // namespace heddle::kernels

// The kernels that work on a prompt: what they refuse, and that what is chosen for a size fits and does not spill.
#include "kernels/attention/prompt_attention.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/ptxas.h"
#include "kernels/product/gemm.h"
#include "kernels/product/half_rows.h"
#include "ptx/print.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

std::string prompt_message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Gemm::Args product(uint32_t m, uint32_t n, uint32_t k) {
  const uint32_t ld = (k + 63) / 64 * 64;
  return {.m = m, .n = n, .k = k, .lda = ld, .ldb = ld, .y_stride = n + n % 2};
}

TEST(Gemm, RefusesTilesThatItsWarpsCannotShare) {
  auto build = [](const Gemm& spec) { return prompt_message([&] { spec.build(); }); };
  EXPECT_EQ(build({.rows = 32, .warps_down = 4}), "gemm: 32 rows cannot be dealt to 4 warps in multiples of 16");
  EXPECT_EQ(build({.cols = 32, .warps_along = 4}), "gemm: 32 columns cannot be dealt to 4 warps in multiples of 16");
  EXPECT_EQ(build({.rows = 256, .cols = 256, .warps_down = 8, .warps_along = 8}), "gemm: 8 x 8 warps are more than 32");
  EXPECT_EQ(build({.rows = 128, .cols = 256, .warps_along = 2}),
            "gemm: 128 x 256 values are more than 128 for each of 128 threads");
  EXPECT_EQ(build({.rows = 16, .cols = 64, .warps_down = 1, .warps_along = 4, .depth = 32}),
            "gemm: 128 threads copy 32 rows at a time, but 16 rows and 64 columns must be multiples of that and 8");
  EXPECT_EQ(build({.depth = 48}), "gemm: depth = 48 is not possible; it may be 32, 64");
}

TEST(Gemm, RefusesSizesWithTheFieldAndWhatItMustBe) {
  const Gemm spec;
  auto grid = [&](auto&& change) {
    Gemm::Args args = product(100, 200, 300);
    change(args);
    return prompt_message([&] { spec.grid(args); });
  };
  EXPECT_EQ(grid([](auto&) {}), "");
  EXPECT_EQ(grid([](auto& a) { a.k = 0; }), "gemm: k is 0, but a product has at least one term");
  EXPECT_EQ(grid([](auto& a) { a.lda = 350; }), "gemm: lda is 350, but it must be a multiple of 64 and at least 300");
  EXPECT_EQ(grid([](auto& a) { a.ldb = 256; }), "gemm: ldb is 256, but it must be a multiple of 64 and at least 300");
  EXPECT_EQ(grid([](auto& a) { a.y_stride = 201; }),
            "gemm: y_stride is 201, but it must be a multiple of 2 and at least 200");
  EXPECT_EQ(grid([](auto& a) { a.b.address = 8; }), "gemm: a and b must be 16-byte aligned, y 8-byte aligned");
  EXPECT_EQ(grid([](auto& a) { a.m = a.n = a.y_stride = 0xfffffffe; }),
            "gemm: 1125899906842624 tiles, but a grid has at most 2147483647");
}

TEST(Gemm, HasOneBlockPerTile) {
  const Gemm spec;
  EXPECT_EQ(spec.grid(product(129, 257, 1)).x, 6u);
  EXPECT_EQ(spec.grid(product(0, 257, 1)).x, 1u);
}

// Large products get the tile that reads the least, small ones tiles enough for all SMs.
TEST(Gemm, ChoosesTilesThatFit) {
  auto tile = [](uint32_t m, uint32_t n, uint32_t k) {
    const Gemm spec = gemm_choice(m, n, k, 132);
    return std::pair(spec.rows, spec.cols);
  };
  EXPECT_EQ(tile(2048, 4096, 4096), std::pair(128u, 256u));
  EXPECT_EQ(tile(2048, 28672, 4096), std::pair(128u, 256u));
  EXPECT_EQ(tile(16, 4096, 4096), std::pair(16u, 32u));
  EXPECT_EQ(tile(64, 4096, 4096).first, 64u);
  for (uint32_t shared : {232'448u, 166'912u, 101'376u})
    for (uint32_t m : {1u, 16u, 17u, 60u, 128u, 500u, 4096u, 0xffffffffu})
      for (uint32_t n : {1u, 512u, 4096u, 128'256u})
        EXPECT_LE(gemm_choice(m, n, 4096, 132, shared).shared_bytes(), shared) << m << " " << n;
  EXPECT_EQ(prompt_message([] { gemm_choice(1, 1, 1, 132, 1000); }), "gemm: no tile fits 1000 bytes of shared memory");
}

template <class Spec>
void expect_no_spills(const Spec& spec, const char* target) {
  const ptx::Target& t = ptx::target(target);
  const ptx::Kernel kernel = spec.build();
  ptx::verify(kernel, t);
  const Assembled result = assemble(ptx::print(kernel, t), target);
  EXPECT_TRUE(result.ok) << field_text(spec) << "\n" << result.log;
  EXPECT_EQ(result.spill_bytes, 0u) << field_text(spec) << " " << target;
}

TEST(Gemm, ChoicesAssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::set<Gemm> seen;
  for (uint32_t m : {8u, 20u, 60u, 128u, 500u, 4096u})
    for (uint32_t n : {64u, 1024u, 4096u, 28'672u}) seen.insert(gemm_choice(m, n, 4096, 132));
  EXPECT_GE(seen.size(), 6u);
  for (Gemm spec : seen) {
    spec.add = spec.bias = spec.chained = 1;
    expect_no_spills(spec, "sm_90a");
  }
  expect_no_spills(gemm_choice(4096, 4096, 4096, 108, 166'912), "sm_80");
  expect_no_spills(gemm_choice(4096, 4096, 4096, 128, 101'376), "sm_89");
}

TEST(HalfRows, RefusesWithTheFieldAndWhatItMustBe) {
  const HalfRows spec;
  auto grid = [&](auto&& change) {
    HalfRows::Args args{.rows = 3, .cols = 200, .x_stride = 204, .ld = 256};
    change(args);
    return prompt_message([&] { spec.grid(args); });
  };
  EXPECT_EQ(grid([](auto&) {}), "");
  EXPECT_EQ(grid([](auto& a) { a.cols = 202; }),
            "half_rows: 202 columns every 204, but with vec = 4 both must be positive multiples of that");
  EXPECT_EQ(grid([](auto& a) { a.x_stride = 100; }),
            "half_rows: 200 columns every 100, but with vec = 4 both must be positive multiples of that");
  EXPECT_EQ(grid([](auto& a) { a.ld = 192; }),
            "half_rows: ld is 192, but it must be a multiple of 64 and at least 200");
  EXPECT_EQ(grid([](auto& a) { a.ld = 8192; }), "half_rows: 256 threads hold 4 loads of 4 values each, but ld is 8192");
  EXPECT_EQ(grid([](auto& a) { a.x.address = 8; }), "half_rows: x, weight and bias must be 16-byte aligned");
  EXPECT_EQ(prompt_message([] { HalfRows{.held = 32}.build(); }),
            "half_rows: 32 loads of 4 values are more than 64 for a thread");
  EXPECT_EQ(prompt_message([] { HalfRows{.plus_one = 1}.build(); }),
            "half_rows: plus_one is for a weight, but there is none");
}

TEST(HalfRows, ChoosesWhatHoldsTheRow) {
  for (uint32_t cols : {1u, 2u, 64u, 768u, 4095u, 4096u, 14'336u, 32'768u, 65'536u}) {
    const uint32_t ld = (cols + 63) / 64 * 64;
    const HalfRows spec = half_rows_choice(cols, cols, ld);
    EXPECT_GE(spec.threads * spec.vec * spec.held, ld) << cols;
    EXPECT_NO_THROW(spec.build()) << cols;
    EXPECT_NO_THROW(spec.grid({.rows = 1, .cols = cols, .x_stride = cols, .ld = ld})) << cols;
  }
  EXPECT_EQ(half_rows_choice(4096, 4098, 4096).vec, 2u);
  EXPECT_EQ(prompt_message([] { half_rows_choice(65'537, 65'537, 65'600); }),
            "half_rows: rows of 65600 are too long with vec = 1");
}

TEST(PromptAttention, RefusesWithTheFieldAndWhatItMustBe) {
  const PromptAttention spec{.window = 1};
  auto grid = [&](auto&& change) {
    PromptAttention::Args args{};
    args.tile_count = 2, args.heads = 4, args.kv_heads = 2, args.q_stride = args.out_stride = 512;
    args.page_size = 16, args.window = 1;
    change(args);
    return prompt_message([&] { spec.grid(args); });
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
  EXPECT_EQ(prompt_message([] { PromptAttention{.queries = 128, .positions = 16}.build(); }),
            "prompt_attention: 256 threads copy 32 positions at a time, but a step has 16");
  EXPECT_EQ(prompt_message([] { PromptAttention{.head_dim = 80, .kv = kv_q8}.build(); }),
            "prompt_attention: heads of 80 values, but a q8 cache has a scale for each 32");
  EXPECT_EQ(prompt_message([] {
              PromptAttention::Args args{};
              args.heads = args.kv_heads = 1, args.q_stride = args.out_stride = 128, args.page_size = 16;
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
  EXPECT_EQ(prompt_message([] { prompt_choice(256, 512, 0, 10'000); }),
            "prompt_attention: 10000 bytes of shared memory are not enough for heads of 256");
}

TEST(PromptAttention, ChoicesAssembleWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  for (uint32_t dim : {64u, 128u, 256u})
    for (uint32_t more : {0u, 1u}) {
      PromptAttention spec = prompt_choice(dim, 512, more);
      spec.window = spec.softcap = more, spec.chained = 1;
      expect_no_spills(spec, "sm_90a");
      spec.chained = 0;
      if (dim <= 128) expect_no_spills(spec, "sm_80");
      spec.kv = kv_q8;
      expect_no_spills(spec, "sm_80");
    }
}

}  // namespace
}  // namespace heddle::kernels

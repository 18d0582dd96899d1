// What is particular to gemv beyond its values (tests/proof runs those): mistakes that such kernels are prone to, what
// is refused, and the edges of its arguments.
#include "kernels/product/gemv.h"

#include <gtest/gtest.h>

#include <random>

#include "ptx/interpret.h"
#include "ptx/verify.h"
#include "quant/format.h"
#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

// Every weight is 1, so y is the sum of x: q4_k with scale 1, d 1, q 1, no min.
std::vector<uint8_t> ones(size_t rows, size_t cols) {
  std::vector<uint8_t> block(144, 0x11);
  block[0] = 0x00;
  block[1] = 0x3c;
  block[2] = block[3] = 0;
  for (int j = 0; j < 4; ++j) {
    block[4 + size_t(j)] = 1;
    block[8 + size_t(j)] = 0;
    block[12 + size_t(j)] = 1;
  }
  std::vector<uint8_t> w;
  for (size_t i = 0; i < rows * cols / 256; ++i) w.insert(w.end(), block.begin(), block.end());
  return w;
}

// y of a matrix of ones; the order in which warps take turns follows the seed.
std::vector<float> sums(const Gemv& spec, uint32_t rows, uint32_t cols, const std::vector<float>& x, uint64_t seed) {
  ptx::Memory memory;
  auto y = memory.alloc<float>(rows);
  const Gemv::Args args{.y = y, .x = memory.put(x), .w = memory.put(ones(rows, cols)), .rows = rows, .cols = cols};
  const ptx::Kernel kernel = spec.build();
  ptx::verify(kernel);
  ptx::interpret(kernel, spec.grid(args), args, memory,
                 {.dynamic_shared_bytes = spec.dynamic_shared(args), .seed = seed});
  return memory.get(y, rows);
}

TEST(Gemv, OnesAreOnes) {
  float out[256];
  quant::decode(Format::q4_k, ones(1, 256).data(), 256, out);
  for (float v : out) ASSERT_EQ(v, 1.0f);
}

// Warps that have no row must still help to copy x and come to every barrier: a block of four or eight warps with fewer
// rows, several chunks, all orders of warps.
TEST(Gemv, WarpsWithoutARowReachEveryBarrier) {
  std::vector<float> x(2 * 8192 + 768, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 3);
  float want = 0;
  for (float v : x) want += v;  // whole numbers below 2^24: every order gives the same
  for (uint32_t how : {uint32_t(Gemv::staged), uint32_t(Gemv::chunked)})
    for (uint32_t warps : {4u, 8u})
      for (uint32_t rows : {1u, warps - 1, warps + 1})
        for (uint64_t seed : {0, 1, 2}) {
          const uint32_t cols = how == Gemv::staged ? 4096 : uint32_t(x.size());
          float expected = 0;
          for (uint32_t i = 0; i < cols; ++i) expected += x[i];
          EXPECT_EQ(sums({.warps = warps, .x = how}, rows, cols, {x.begin(), x.begin() + cols}, seed),
                    std::vector<float>(rows, expected))
              << field_text(Gemv{.warps = warps, .x = how}) << " rows " << rows << " seed " << seed;
        }
}

// The copy of x steps by the number of threads: blocks of 32 to 1024 threads, a length that no number of them divides.
TEST(Gemv, EveryBlockSizeCopiesAllOfX) {
  std::vector<float> x(8192 + 256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 7);
  float want = 0;
  for (float v : x) want += v;
  for (uint32_t warps : {1u, 3u, 4u, 5u, 8u, 16u, 32u})
    EXPECT_EQ(sums({.warps = warps, .x = Gemv::chunked}, 2, uint32_t(x.size()), x, 1), std::vector<float>(2, want))
        << warps << " warps";
}

// Lane 0 alone stores what the shuffles added up, and with several warps per row all of them count.
TEST(Gemv, AllWarpsOfARowCount) {
  std::vector<float> x(4096);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 5);
  float want = 0;
  for (float v : x) want += v;
  for (uint32_t group : {1u, 2u, 3u, 4u, 8u})
    for (uint64_t seed : {0, 1, 2})
      EXPECT_EQ(sums({.warps = group, .warps_per_row = group}, 3, 4096, x, seed), std::vector<float>(3, want)) << group;
}

TEST(Gemv, NoRowsTouchNothing) {
  for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::staged), uint32_t(Gemv::chunked), uint32_t(Gemv::q8_1)}) {
    const Gemv spec{.warps = 4, .warps_per_row = 2, .x = x};
    ptx::Memory memory;
    auto y = memory.alloc<float>(8);
    const Gemv::Args args{.y = y,
                          .x = memory.alloc<float>(256),
                          .xq = memory.alloc<uint8_t>(288),
                          .w = memory.alloc<uint8_t>(0),
                          .rows = 0,
                          .cols = 256};
    const std::vector<float> before = memory.get(y, 8);
    const ptx::Grid grid = spec.grid(args);
    EXPECT_EQ(grid.x, 1u);
    ptx::interpret(spec.build(), grid, args, memory, {.dynamic_shared_bytes = spec.dynamic_shared(args)});
    const std::vector<float> after = memory.get(y, 8);
    EXPECT_EQ(std::memcmp(after.data(), before.data(), 8 * sizeof(float)), 0);
  }
}

TEST(Gemv, NoColumnsGiveZeros) {
  for (uint32_t x : {uint32_t(Gemv::direct), uint32_t(Gemv::staged), uint32_t(Gemv::chunked), uint32_t(Gemv::q8_1)})
    for (Format format : gemv_formats) {
      if (x == Gemv::q8_1 && quant::is_float(format)) continue;
      const Gemv spec{.format = uint32_t(format), .warps = 4, .warps_per_row = 2, .x = x};
      ptx::Memory memory;
      auto y = memory.alloc<float>(3);
      const Gemv::Args args{.y = y,
                            .x = memory.alloc<float>(4),
                            .xq = memory.alloc<uint8_t>(16),
                            .w = memory.alloc<uint8_t>(16),
                            .rows = 3,
                            .cols = 0};
      ptx::interpret(spec.build(), spec.grid(args), args, memory, {.dynamic_shared_bytes = spec.dynamic_shared(args)});
      EXPECT_EQ(memory.get(y, 3), std::vector<float>(3, 0.0f));
    }
}

TEST(Gemv, RefusesAFormatThatNoKernelReads) {
  const std::string said = refused([] { Gemv{.format = uint32_t(Format::iq2_xs)}.build(); });
  EXPECT_EQ(said.substr(0, 64), "gemv: format = iq2_xs is not possible; it may be f32, f16, bf16,") << said;
}

TEST(Gemv, RefusesArgumentsWithExpectedAndFound) {
  auto said = [](const Gemv& spec, const Gemv::Args& args) { return refusal(spec, args); };
  EXPECT_EQ(said({}, {.rows = 1, .cols = 100}), "gemv: 100 columns of q4_k are not a multiple of 256, its block");
  EXPECT_EQ(said({.format = uint32_t(Format::q8_0)}, {.rows = 1, .cols = 100}),
            "gemv: 100 columns of q8_0 are not a multiple of 32, its block");
  EXPECT_EQ(said({.format = uint32_t(Format::f16)}, {.rows = 1, .cols = 172}),
            "gemv: 172 columns of f16 are not a multiple of 8, the values of load = 16");
  EXPECT_EQ(said({.format = uint32_t(Format::f16), .load = 4}, {.rows = 1, .cols = 172}), "");
  EXPECT_EQ(said({}, {.w = {8}, .rows = 1, .cols = 256}), "gemv: the address of w is 8, expected a multiple of 16");
  EXPECT_EQ(said({}, {.x = {4}, .rows = 1, .cols = 256}), "gemv: the address of x is 4, expected a multiple of 16");
  EXPECT_EQ(said({.columns = 2}, {.rows = 9, .cols = 256, .y_stride = 8, .x_stride = 256}),
            "gemv: y_stride is 8, expected 9 or more");
  EXPECT_EQ(said({.columns = 2, .x = Gemv::q8_1}, {.rows = 9, .cols = 256, .y_stride = 9, .xq_stride = 256}),
            "gemv: xq_stride is 256, expected 288 or more");
  EXPECT_NE(said({.x = Gemv::staged}, {.rows = 1, .cols = 16384}).find("needs 73728 bytes"), std::string::npos);
  EXPECT_EQ(said({.x = Gemv::chunked}, {.rows = 1, .cols = 1u << 20}), "");
}

TEST(Gemv, RefusesInvalidSpecs) {
  auto said = [](const Gemv& spec) { return refused([&] { spec.build(); }); };
  EXPECT_NE(said({.warps = 33}), "");
  EXPECT_NE(said({.columns = 9}), "");
  EXPECT_NE(said({.warps = 4, .warps_per_row = 3}).find("a multiple of warps_per_row"), std::string::npos);
  EXPECT_NE(said({.rows = 4, .columns = 2}).find("for one column"), std::string::npos);
  EXPECT_NE(said({.rows = 4, .unroll = 4}).find("a limit of 8"), std::string::npos);
  EXPECT_NE(said({.format = uint32_t(Format::f32), .x = Gemv::q8_1}).find("for integer formats"), std::string::npos);
  EXPECT_NE(said({.format = uint32_t(Format::f32), .load = 2}).find("at least one value"), std::string::npos);
  EXPECT_NE(said({.format = uint32_t(Format::q6_k), .scales = Gemv::shuffled}).find("different scales"),
            std::string::npos);
  EXPECT_NE(said({.format = uint32_t(Format::q8_0), .scales = Gemv::shuffled}).find("several lanes"),
            std::string::npos);
  EXPECT_EQ(said({.format = uint32_t(Format::q8_0), .load = 4, .scales = Gemv::shuffled}), "");
}

TEST(Gemv, GridsCoverAllRows) {
  EXPECT_EQ(Gemv{.warps = 4}.grid({.rows = 0xffffffff, .cols = 256}).x, 0x40000000u);
  EXPECT_EQ((Gemv{.warps = 8, .warps_per_row = 4, .rows = 2}.grid({.rows = 9, .cols = 256}).x), 3u);
}

TEST(Gemv, SpecsAreKeys) {
  EXPECT_EQ(Gemv{}, Gemv{.warps = 4});
  EXPECT_LT(Gemv{.warps = 4}, Gemv{.warps = 8});
}

}  // namespace
}  // namespace heddle::kernels

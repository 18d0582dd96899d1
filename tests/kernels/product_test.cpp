// The product: what it refuses, and the shapes that are chosen for the phases of real models.
#include "kernels/product.h"

#include <gtest/gtest.h>

#include <set>

#include "base/ptxas.h"
#include "ptx/print.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

using quant::Format;

std::string message(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Product, RefusesWhatItCannotDo) {
  const Product spec{.slices = 4};
  const Product::Args good{.y = {256}, .x = {512}, .w = {1024}, .rows = 7, .cols = 4096, .blocks = 3, .scale = 1};
  EXPECT_EQ(spec.grid(good).x, 3u);
  auto with = [&](auto&& change, Product changed = {}) {
    Product::Args args = good;
    change(args);
    return message([&] { changed.grid(args); });
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 4097; }), "product: 4097 columns, but 4 slices of 1024 are 4096");
  EXPECT_EQ(with([](auto& a) { a.w.address = 8; }), "product: x and w must be 16-byte aligned, found 0x8");
  EXPECT_EQ(with([](auto& a) { a.blocks = 0; }), "product: a grid of 0 blocks");
  EXPECT_EQ(with([](auto& a) { a.rows = 6; }, {.out = Product::gate}),
            "product: 6 rows of gate and up, expected a multiple of 4");
  EXPECT_EQ(with([](auto& a) { a.head = 30; }, {.out = Product::qkv}),
            "product: heads of 30 and 0 with 0 turned, expected multiples of 4");
  EXPECT_EQ(with([](auto& a) { a.x_stride = 4100; }, {.columns = 2}),
            "product: vectors 4100 values apart, expected a multiple of 8");
  EXPECT_NE(message([] { Product{.slices = 9, .per_warp = 2}.build(); }).find("slices must be a multiple of per_warp"),
            std::string::npos);
  EXPECT_NE(message([] { Product{.slices = 16, .groups = 4}.build(); }).find("more than 31 computing warps"),
            std::string::npos);
  EXPECT_NE(message([] { Product{.tile_cols = 256, .groups = 2}.build(); }).find("no such groups"), std::string::npos);
  EXPECT_NE(message([] { Product{.format = uint32_t(Format::f16)}.build(); }).find("no integer products"),
            std::string::npos);
}

TEST(Product, RowsOfAHeadArePairedFourByFour) {
  for (bool halves : {false, true})
    for (uint32_t rotary : {0u, 4u, 32u, 64u}) {
      std::set<uint32_t> seen;
      for (uint32_t p = 0; p < 64; ++p) {
        const uint32_t row = qkv_row(p, rotary, halves);
        seen.insert(row);
        if (p >= rotary) {
          EXPECT_EQ(row, p);
        } else if (p % 4 < 2) {
          EXPECT_EQ(qkv_row(p + 2, rotary, halves), row + (halves ? rotary / 2 : 1));
        }
      }
      EXPECT_EQ(seen.size(), 64u);
    }
}

// Phases of models from 1B to 70B.
template <class F>
void each_choice(F f) {
  for (Format format : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16})
    for (const auto& [rows, cols] : {std::pair{2048u, 1536u},
                                     {17920u, 1536u},
                                     {1536u, 8960u},
                                     {3072u, 2048u},
                                     {16384u, 2048u},
                                     {2048u, 8192u},
                                     {6144u, 4096u},
                                     {28672u, 4096u},
                                     {4096u, 14336u},
                                     {128256u, 4096u},
                                     {57344u, 8192u},
                                     {8192u, 28672u}})
      for (uint32_t columns : {1u, 2u, 4u, 8u}) {
        Product what{.format = uint32_t(format), .columns = columns, .exact = quant::is_float(format), .chained = 1};
        if (cols <= rows) what.norm = Product::rms;
        what.out = rows > 4 * cols ? Product::gate : rows < cols ? Product::add : Product::store;
        if (columns <= product_most_columns(what, cols)) f(product_choice(what, rows, cols), rows, cols);
      }
}

TEST(Product, SaysHowManyVectorsFit) {
  for (uint32_t cols : {1024u, 1536u, 2048u, 4096u, 5120u, 8192u})
    EXPECT_EQ(product_most_columns({}, cols), 8u) << cols;
  for (uint32_t cols = 32; cols <= 31744; cols += cols < 2000 ? 32 : 1024) {
    EXPECT_GE(product_most_columns({}, cols), 1u) << cols;
    EXPECT_GE(product_most_columns({.format = uint32_t(Format::f32), .exact = 1}, cols), 1u) << cols;
  }
}

TEST(Product, TheChoiceHasEnoughInFlight) {
  each_choice([](const ProductChoice& choice, uint32_t rows, uint32_t cols) {
    EXPECT_GE(choice.spec.filled_cols(), cols);
    // about 25 KB per SM must be under way to keep the memory busy
    const uint64_t tile = tile_bytes(choice.spec.weights()), warps = choice.spec.warps() - 1;
    EXPECT_GE(warps * choice.blocks_per_sm * choice.spec.depth * tile,
              std::min<uint64_t>(TileShape{choice.spec.weights(), rows, cols, choice.spec.tile_cols}.bytes() / 132,
                                 25 * 1024))
        << field_text(choice.spec);
  });
}

TEST(Product, TheChoiceAssemblesWithoutSpillsSlow) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::set<std::string> done;
  each_choice([&](ProductChoice choice, uint32_t, uint32_t) {
    if (!done.insert(field_text(choice.spec)).second) return;
    const ptx::Kernel kernel = choice.spec.build();
    ptx::verify(kernel, ptx::target("sm_90a"));
    const Assembled assembled = assemble(ptx::print(kernel, ptx::target("sm_90a")), "sm_90a");
    EXPECT_TRUE(assembled.ok) << assembled.log;
    EXPECT_EQ(assembled.spill_bytes, 0u) << field_text(choice.spec) << assembled.log;
  });
}

}  // namespace
}  // namespace heddle::kernels

// The ring product: what it refuses, and the shapes that are chosen for the products of real models.
#include <gtest/gtest.h>

#include <set>

#include "base/ptxas.h"
#include "kernels/ring_gemv.h"
#include "ptx/print.h"
#include "ptx/verify.h"

namespace heddle::kernels {
namespace {

std::string message(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RingGemv, RefusesWhatItCannotDo) {
  const RingGemv spec{.slices = 4};
  const RingGemv::Args good{.y = {256},
                            .residual = {},
                            .x = {512},
                            .w = {1024},
                            .rows = 7,
                            .cols = 4096,
                            .blocks = 3,
                            .next = {},
                            .next_bytes = 0};
  EXPECT_EQ(spec.grid(good).x, 3u);
  auto with = [&](auto&& change) {
    RingGemv::Args args = good;
    change(args);
    return message([&] { spec.grid(args); });
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 4000; }), "ring_gemv: 4000 columns, but 4 slices are 4096");
  EXPECT_EQ(with([](auto& a) { a.w.address = 8; }), "ring_gemv: x and w must be 16-byte aligned");
  EXPECT_EQ(with([](auto& a) { a.blocks = 0; }), "ring_gemv: a grid of 0 blocks");
  EXPECT_EQ(message([] { RingGemv{.slices = 9, .per_warp = 2}.build(); }),
            "ring_gemv: 9 slices cannot be dealt 2 to a warp");
  EXPECT_EQ(message([] { RingGemv{.slices = 16, .groups = 4}.build(); }),
            "ring_gemv: 16 x 4 computing warps are more than 31");
  EXPECT_EQ(message([] { RingPack{}.grid({.to = {16}, .from = {16}, .rows = 1, .cols = 256}); }),
            "ring_pack: 256 columns are not a positive multiple of 1024");
}

TEST(RingGemv, PackedWeightsAreNoLargerThanTheFile) {
  EXPECT_EQ(ring_bytes(0, 4096, 4096), 4096ull * 16 * 144);
  EXPECT_EQ(ring_bytes(1, 128256, 4096), 128256ull * 16 * 210);
  EXPECT_EQ(ring_bytes(0, 17, 1024), 32ull * 4 * 144);  // but for the last rows
  for (const RingFormat& f : ring_formats()) {
    uint32_t bytes = 0;
    for (const RingPlane& plane : f.planes) bytes += plane.bytes;
    EXPECT_EQ(bytes, f.block_bytes()) << quant::name(f.format);
    EXPECT_EQ(f.tile_bytes() % 16, 0u) << quant::name(f.format);
  }
}

// Layers and heads of models from 1B to 70B.
template <class F>
void each_choice(F f) {
  for (uint32_t format : {0u, 1u})
    for (const auto& [rows, cols] : {std::pair{2048u, 2048u},
                                     {3072u, 2048u},
                                     {16384u, 2048u},
                                     {2048u, 8192u},
                                     {4096u, 4096u},
                                     {6144u, 4096u},
                                     {28672u, 4096u},
                                     {4096u, 14336u},
                                     {128256u, 4096u},
                                     {8192u, 8192u},
                                     {57344u, 8192u},
                                     {8192u, 28672u}})
      for (uint32_t columns : {1u, 2u, 3u, 4u, 8u})
        if (columns <= ring_most_columns(format, cols)) f(ring_choice(format, rows, cols, columns), rows, cols);
}

TEST(RingGemv, SaysHowManyVectorsFit) {
  for (uint32_t cols : {1024u, 2048u, 4096u, 5120u, 8192u}) EXPECT_EQ(ring_most_columns(0, cols), 8u) << cols;
  for (uint32_t format : {0u, 1u})
    for (uint32_t cols = 1024; cols <= 31744; cols += 1024) EXPECT_GE(ring_most_columns(format, cols), 1u) << cols;
  const uint32_t most = ring_most_columns(0, 28672);
  EXPECT_EQ(message([] { ring_choice(0, 4096, 28672, 8); }),
            fmt::format("ring_gemv: 8 vectors of 28672 values do not fit in registers; {} do", most));
}

TEST(RingGemv, TheChoiceFitsAndHasEnoughInFlight) {
  each_choice([](const RingChoice& choice, uint32_t rows, uint32_t cols) {
    const ptx::Kernel kernel = choice.spec.build();
    EXPECT_EQ(choice.spec.slices * ring_tile_cols, cols);
    EXPECT_NO_THROW(ptx::verify(kernel, ptx::target("sm_90"))) << field_text(choice.spec);
    // about 29 KB per SM must be under way to keep the memory busy
    EXPECT_GE(choice.spec.in_rings(rows, 132 * choice.blocks_per_sm),
              std::min<uint64_t>(ring_bytes(choice.spec.format, rows, cols), 132ull * 29 * 1024))
        << field_text(choice.spec);
  });
}

TEST(RingGemv, TheChoiceAssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::set<std::string> done;
  each_choice([&](RingChoice choice, uint32_t, uint32_t) {
    choice.spec.chained = 1;
    if (!done.insert(field_text(choice.spec)).second) return;
    const std::string text = ptx::print(choice.spec.build(), ptx::target("sm_90a"));
    const Assembled assembled = assemble(text, "sm_90a");
    EXPECT_TRUE(assembled.ok) << assembled.log;
    EXPECT_EQ(assembled.spill_bytes, 0u) << field_text(choice.spec);
  });
}

}  // namespace
}  // namespace heddle::kernels

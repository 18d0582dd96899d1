// What tile_pack refuses, and that it assembles for every format.
#include "kernels/product/tile_pack.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(TilePack, KernelsAssembleForEveryFormatWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<TilePack> pack;
  for (Format f : {Format::f32, Format::f16, Format::q6_k, Format::mxfp4, Format::iq2_s})  // units of 1, 2 and 4 bytes
    pack.push_back({.format = uint32_t(f)});
  expect_no_spills(pack, "sm_90a");
}

TEST(TilePack, RefusesWhatItCannotDo) {
  const TilePack spec{.format = uint32_t(Format::q6_k)};
  const TilePack::Args good{.to = {256}, .from = {514}, .order = {}, .rows = 300'000, .cols = 16'384};
  EXPECT_EQ(spec.grid(good).x, 75'000u * 16);
  EXPECT_EQ(spec.grid({.to = {256}, .from = {512}, .order = {}, .rows = 0, .cols = 256}).x, 1u);
  auto with = [&](auto&& change) {
    TilePack::Args args = good;
    change(args);
    return refusal(spec, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 250; }), "tile_pack: 250 columns of q6_k are not a positive multiple of 256");
  EXPECT_EQ(with([](auto& a) { a.cols = 0; }), "tile_pack: 0 columns of q6_k are not a positive multiple of 256");
  EXPECT_EQ(
      with([](auto& a) { a.from.address = 513; }),
      "tile_pack: the addresses of to, from and order are 0x100, 0x201 and 0x0, expected multiples of 16, 2 and 4");
  EXPECT_EQ(with([](auto& a) {
              a.rows = 4'000'000'000;
              a.cols = 1 << 20;
            }),
            "tile_pack: 4000000000 x 1048576 values are too many for one launch");
}

}  // namespace
}  // namespace heddle::kernels

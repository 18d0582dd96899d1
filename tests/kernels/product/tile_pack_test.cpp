// What tile_pack and tile_unpack refuse, and that they assemble for every format.
#include "kernels/product/tile_pack.h"

#include <gtest/gtest.h>

#include "tests/kernels/refusal.h"

namespace heddle::kernels {
namespace {

using quant::Format;

TEST(TilePack, KernelsAssembleForEveryFormatWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<TileUnpack> unpack;
  for (Format f : known_formats) unpack.push_back({.format = uint32_t(f), .chained = 1});
  expect_no_spills(unpack, "sm_90a");
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

TEST(TileUnpack, RefusesWhatItCannotDo) {
  const TileUnpack spec{.tile_cols = 512};
  const TileUnpack::Args good{.to = {256}, .w = {512}, .order = {}, .rows = 9, .cols = 512, .ld = 576, .first = 16};
  EXPECT_EQ(spec.grid(good).x, 2u * 2);
  auto with = [&](auto&& change) {
    TileUnpack::Args args = good;
    change(args);
    return refusal(spec, args);
  };
  EXPECT_EQ(with([](auto& a) { a.cols = 500; }), "tile_unpack: 500 columns of q4_k are not a positive multiple of 256");
  EXPECT_EQ(with([](auto& a) { a.ld = 448; }), "tile_unpack: ld is 448, expected a multiple of 64 that is 512 or more");
  EXPECT_EQ(with([](auto& a) { a.ld = 520; }), "tile_unpack: ld is 520, expected a multiple of 64 that is 512 or more");
  EXPECT_EQ(with([](auto& a) { a.first = 4; }), "tile_unpack: first is 4, expected a multiple of 8");
  EXPECT_EQ(with([](auto& a) { a.w.address = 8; }),
            "tile_unpack: the addresses of to, w and order are 0x100, 0x8 and 0x0, expected multiples of 16, 16 and 4");
}

}  // namespace
}  // namespace heddle::kernels

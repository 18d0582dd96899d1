// What a lane reads of a tile, in every format: every value once, as the definition says, and dot products with it.
#include "proof/format/weights.h"

#include <gtest/gtest.h>

#include <bit>

#include "kernels/format/block_format.h"
#include "kernels/product/tile.h"
#include "kernels/product/tile_pack.h"
#include "ptx/builder.h"
#include "ptx/interpret.h"
#include "ptx/print.h"
#include "ptx/verify.h"
#include "tests/ptx/assemble_all.h"

namespace heddle::proof {
namespace {

using namespace ptx;
using kernels::Codebook;
using kernels::tile_bytes;
using kernels::tile_values;
using kernels::TilePiece;
using quant::Format;

struct PieceArgs {
  DevicePtr<uint8_t> tile;
  DevicePtr<uint32_t> places;  // (step, lane) of {row, run 0, run 1}
  DevicePtr<float> values;     // (step, lane, 32)
  DevicePtr<int8_t> q;      // (2, 4 steps * rows of a step * tile_cols): of each value of the tile, int8 of two vectors
  DevicePtr<float> d, sum;  // of each 16 of them
  DevicePtr<float> x;       // the same as f32
  DevicePtr<float> dots;    // (step, lane) of two dot products with int8, then two with f32
};
constexpr uint32_t columns = 2;

Kernel piece_kernel(Format format, uint32_t tile_cols, bool in_shared, uint32_t steps = 4) {
  Builder<PieceArgs> k("piece", 32);
  auto tile = k.shared<uint8_t>(tile_bytes(format));
  k.loop(k.thread(), tile_bytes(format) / 4, 32u,
         [&](U32 i) { store(tile.as<uint32_t>() + i, load(k.arg(&PieceArgs::tile).as<uint32_t>() + i)); });
  const Codebook book = in_shared ? TilePiece::codebook(k, format) : Codebook{};
  k.barrier();
  const TilePiece piece(k, format, tile_cols, k.lane(), book);
  for (uint32_t step = 0; step < steps; ++step) {
    U32 at = k.lane() + 32 * step, row = piece.row_in_step() + step * (1024 / tile_cols);
    auto places = k.arg(&PieceArgs::places) + at * 3u;
    store(places, row);
    for (uint32_t i = 0; i < 2; ++i) store(places.offset(1 + i), piece.run(i));
    const auto values = piece.values(k.arg(&PieceArgs::tile), step);
    for (uint32_t i = 0; i < 32; ++i) store((k.arg(&PieceArgs::values) + at * 32u).offset(i), values[i]);

    std::vector<TilePiece::Q8> integers(columns);
    std::vector<TilePiece::Floats> floats(columns);
    for (uint32_t c = 0; c < columns; ++c)
      for (uint32_t i = 0; i < 2; ++i) {
        U32 first = row * tile_cols + piece.run(i) + c * tile_values;
        integers[c].q[i] = load_vec<4>((k.arg(&PieceArgs::q) + first).as<uint32_t>());
        integers[c].d[i] = load(k.arg(&PieceArgs::d) + (first >> 4u));
        integers[c].sum[i] = load(k.arg(&PieceArgs::sum) + (first >> 4u));
        for (uint32_t j = 0; j < 16; ++j) floats[c].v.push_back(load((k.arg(&PieceArgs::x) + first).offset(j)));
      }
    auto to = k.arg(&PieceArgs::dots) + at * (2 * columns);
    if (TilePiece::has_integer_dot(format)) {
      const auto dots = piece.dot(tile, step, integers);
      for (uint32_t c = 0; c < columns; ++c) store(to.offset(c), dots[c]);
    }
    const auto dots = piece.dot(tile, step, floats);
    for (uint32_t c = 0; c < columns; ++c) store(to.offset(columns + c), dots[c]);
  }
  return k.finish();
}

void expect_pieces(Format format, uint32_t tile_cols, bool in_shared, Random& random) {
  const std::string what = fmt::format("{} {}", quant::name(format), tile_cols);
  const uint32_t rows = tile_values / tile_cols;
  const auto file = random_blocks(random, format, tile_values, tile_cols);
  std::vector<float> w(tile_values);
  quant::decode(format, file.data(), tile_values, w.data());
  const auto decoded = decode_row(format, file.data(), tile_values);

  std::vector<int8_t> q(columns * tile_values);
  std::vector<float> d(q.size() / 16), sum(d.size()), x(q.size());
  for (size_t b = 0; b < d.size(); ++b) {
    d[b] = random.uniform(0.01f, 0.1f);
    int total = 0;
    for (size_t i = 16 * b; i < 16 * b + 16; ++i) {
      q[i] = int8_t(b % 7 == 0 ? -127 : b % 11 == 0 ? 127 : int(random.below(255)) - 127);
      x[i] = d[b] * float(q[i]);
      total += q[i];
    }
    sum[b] = d[b] * float(total);
  }
  Memory memory;
  const PieceArgs args{.tile = memory.put(tiles_of({format, rows, tile_cols, tile_cols}, file)),
                       .places = memory.alloc<uint32_t>(128 * 3),
                       .values = memory.alloc<float>(tile_values),
                       .q = memory.put(q),
                       .d = memory.put(d),
                       .sum = memory.put(sum),
                       .x = memory.put(x),
                       .dots = memory.alloc<float>(128 * 2 * columns)};
  const Kernel kernel = piece_kernel(format, tile_cols, in_shared);
  verify(kernel, target("sm_75"));
  interpret(kernel, {.x = 1}, args, memory);

  const auto places = memory.get(args.places, 128 * 3);
  const auto values = memory.get(args.values, tile_values), dots = memory.get(args.dots, 128 * 2 * columns);
  std::vector<int> hits(tile_values);
  for (uint32_t piece = 0; piece < 128; ++piece) {
    std::vector<double> want(columns), magnitude(columns);
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t run = places[3 * piece + 1 + i / 16];
      ASSERT_EQ(run % 16, 0u) << what;
      ASSERT_LT(run, tile_cols) << what;
      const uint32_t at = places[3 * piece] * tile_cols + run + i % 16;
      ASSERT_LT(at, tile_values) << what;
      ++hits[at];
      ASSERT_EQ(std::bit_cast<uint32_t>(values[32 * piece + i]), std::bit_cast<uint32_t>(w[at])) << what << " " << at;
      for (uint32_t c = 0; c < columns; ++c) {
        const double v = x[c * tile_values + at];
        want[c] += w[at] * v;
        magnitude[c] += (std::abs(w[at] - decoded.offset[at]) + std::abs(decoded.offset[at])) * std::abs(v);
      }
    }
    for (uint32_t c = 0; c < columns; ++c) {
      const float* got = &dots[2 * columns * piece + c];
      EXPECT_NEAR(got[columns], want[c], magnitude[c] * 40 * 0x1p-24) << what << " f32, piece " << piece;
      if (!TilePiece::has_integer_dot(format)) continue;
      EXPECT_NEAR(got[0], want[c], magnitude[c] * 40 * 0x1p-24) << what << " int8, piece " << piece;
    }
  }
  EXPECT_EQ(hits, std::vector<int>(tile_values, 1)) << what;
}

TEST(TilePiece, ReadsEveryValueOnceAndMultiplies) {
  Random random(3);
  uint32_t turn = 0;
  for (Format f : kernels::known_formats) expect_pieces(f, 256u << turn++ % 3, true, random);
  for (uint32_t cols : {256u, 512u, 1024u})
    for (Format f : {Format::q4_k, Format::q6_k, Format::q8_0, Format::f16}) expect_pieces(f, cols, false, random);
  for (Format f : {Format::iq1_s, Format::iq2_xxs, Format::iq3_s}) expect_pieces(f, 512, false, random);
}

TEST(TilePiece, AssemblesWithoutSpills) {
  if (!ptxas_found()) GTEST_SKIP() << "ptxas is not on PATH";
  std::vector<std::string> texts;
  for (Format f : kernels::known_formats)
    texts.push_back(print(piece_kernel(f, 1024, true, 1), target("sm_90a"), {.lines = false}));
  const std::vector<Assembled> results = assemble_all(texts, "sm_90a");
  for (size_t i = 0; i < results.size(); ++i) {
    const auto format = quant::name(kernels::known_formats[i]);
    EXPECT_TRUE(results[i].ok) << format << results[i].log;
    EXPECT_EQ(results[i].spill_bytes, 0u) << format;
  }
}

}  // namespace
}  // namespace heddle::proof

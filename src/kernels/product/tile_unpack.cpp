// A block of 128 threads per tile, a piece per thread. The pieces' runs go through shared memory, so that the block
// writes whole rows of the tile: runs of 16 f16 would be sectors written in halves.
#include "kernels/product/tile_unpack.h"

#include <algorithm>

#include "kernels/product/tile_piece.h"
#include "kernels/spec/chain.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t pieces = tile_values / 32;

F32 within_f16(F32 v) {  // NaN stays
  return select(v == v, max(min(v, 65504.0f), -65504.0f), v);
}

// Chunks of 16 bytes, moved about so that the pieces' runs and neighbours are in different banks.
U32 place(U32 chunk) { return chunk ^ (chunk >> 3u & 7u); }

struct UnpackWriter {
  Builder<TileUnpack::Args>& k;
  const TileUnpack& spec;
  const quant::Format weights = quant::Format(spec.format);
  const uint32_t tile_rows = tile_values / spec.tile_cols;
  const uint32_t chunk_values = spec.out == TileUnpack::to_f16 ? 8 : 4, row_chunks = spec.tile_cols / chunk_values;
  Shared<uint8_t> chunks = k.shared<uint8_t>(tile_values / chunk_values * 16);

  auto chunk(U32 number) { return (chunks + place(number) * 16u).template as<uint32_t>(); }

  // A thread's values to shared memory.
  void keep(const TilePiece& piece, const std::vector<F32>& v) {
    for (uint32_t i = 0; i < 2; ++i) {
      U32 first = piece.row_in_step() * row_chunks + piece.run(i) / chunk_values;
      for (uint32_t j = 0; j < 16; j += chunk_values) {
        Vec<uint32_t, 4> words;
        for (uint32_t n = 0; n < 4; ++n) {
          const uint32_t from = 16 * i + j + n * chunk_values / 4;
          words[n] = chunk_values == 4 ? bitcast<uint32_t>(v[from])
                                       : bitcast<uint32_t>(to_f16x2(within_f16(v[from]), within_f16(v[from + 1])));
        }
        store_vec(chunk(first + j / chunk_values), words);
      }
    }
  }

  // The whole tile from there to its rows.
  void write(U32 first_row, U32 first_col) {
    U32 ld = k.arg(&TileUnpack::Args::ld);
    for (uint32_t i = 0; i < tile_values / chunk_values / pieces; ++i) {
      U32 number = k.thread() + i * pieces;
      U32 p = first_row + number / row_chunks, col = first_col + number % row_chunks * chunk_values;
      k.when(p < k.arg(&TileUnpack::Args::rows) && col < ld, [&] {
        auto row = k.var(p);
        auto order = k.arg(&TileUnpack::Args::order);
        k.when(order.address() != uint64_t(0), [&] { row = load(order + (p + k.arg(&TileUnpack::Args::first))); });
        k.when(row.get() != tile_row_nowhere, [&] {
          U64 value = mul_wide(row.get(), ld) + widen(col);
          auto to = k.arg(&TileUnpack::Args::to) + value * uint64_t(16 / chunk_values);
          store_vec(to.as<uint32_t>(), load_vec<4>(chunk(number)));
        });
      });
    }
  }

  void write_all() {
    chain_start(k, spec.chained);
    const Codebook book = TilePiece::codebook(k, weights);
    const TilePiece piece(k, weights, spec.tile_cols, k.thread(), book);
    U32 rows = k.arg(&TileUnpack::Args::rows), cols = k.arg(&TileUnpack::Args::cols);
    U32 slices = (cols + (spec.tile_cols - 1)) / spec.tile_cols;
    U32 out_slices = (k.arg(&TileUnpack::Args::ld) + (spec.tile_cols - 1)) / spec.tile_cols;
    U32 first_tile = k.arg(&TileUnpack::Args::first) / tile_rows;
    const std::vector<F32> zeros(32, k.constant(0.0f));
    chain_wait(k, spec.chained);
    k.loop(k.block_id(), (rows + (tile_rows - 1)) / tile_rows * out_slices, k.grid_x(), [&](U32 t) {
      U32 tile_row = t / out_slices, slice = t % out_slices;
      k.barrier();  // the codebook is there, the tile before has been written
      k.when_else(
          slice < slices,
          [&] {
            U64 tile = mul_wide(first_tile + tile_row, slices) + widen(slice);
            keep(piece, piece.values(k.arg(&TileUnpack::Args::w) + tile * uint64_t(tile_bytes(weights)), 0));
          },
          [&] { keep(piece, zeros); });
      k.barrier();
      write(tile_row * tile_rows, slice * spec.tile_cols);
    });
  }
};

}  // namespace

Kernel TileUnpack::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), pieces);
  UnpackWriter{k, *this}.write_all();
  return k.finish();
}

Grid TileUnpack::grid(const Args& args) const {
  check_fields(*this);
  const auto weights = quant::Format(format);
  const TileShape shape{weights, args.rows, args.cols, tile_cols};
  if (args.cols == 0 || args.cols % quant::block_values(weights))
    throw Error("tile_unpack: {} columns of {} are not a positive multiple of {}", args.cols, quant::name(weights),
                quant::block_values(weights));
  if (args.ld < args.cols || args.ld % 64)
    throw Error("tile_unpack: ld is {}, expected a multiple of 64 that is {} or more", args.ld, args.cols);
  if (args.first % shape.tile_rows())
    throw Error("tile_unpack: first is {}, expected a multiple of {}", args.first, shape.tile_rows());
  if (args.to.address % 16 || args.w.address % 16 || args.order.address % 4)
    throw Error(
        "tile_unpack: the addresses of to, w and order are {:#x}, {:#x} and {:#x}, expected multiples of 16, 16 "
        "and 4",
        args.to.address, args.w.address, args.order.address);
  const uint64_t tiles = uint64_t(shape.row_tiles()) * TileShape{weights, 0, args.ld, tile_cols}.slices();
  if (tiles > 0x7fffffff) throw Error("tile_unpack: {} x {} values are too many for one launch", args.rows, args.ld);
  // a codebook is copied once per block: not more blocks than run at once on the largest GPU
  const uint64_t most = !quant::is_float(weights) && !block_format(weights).book().empty() ? 2048 : tiles;
  return {.x = tiles ? uint32_t(std::min(tiles, most)) : 1};  // a grid of nothing cannot be launched
}

}  // namespace heddle::kernels

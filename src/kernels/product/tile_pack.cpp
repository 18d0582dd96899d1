// One block per tile, plane by plane: neighbouring threads write neighbouring units, as wide as the alignment of the
// file allows (2 bytes for most formats). The source address takes a few divisions by constants.
#include "kernels/product/tile_pack.h"

#include <algorithm>

#include "kernels/product/tile.h"
#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

constexpr uint32_t pack_threads = 256;

struct PackWriter {
  Builder<TilePack::Args>& k;
  const TilePack& spec;
  const quant::Format format = quant::Format(spec.format);
  const TileShape shape{format, 0, 0, spec.tile_cols};
  const uint32_t block_bytes = tile_block_bytes(format);
  const uint32_t across = spec.tile_cols / tile_block_values(format);  // blocks of a row of the tile

  // The row of `from` for packed row p.
  U32 source(U32 p) {
    auto row = k.var(p);
    auto order = k.arg(&TilePack::Args::order);
    k.when_else(
        p < k.arg(&TilePack::Args::rows),
        [&] { k.when(order.address() != uint64_t(0), [&] { row = load(order + p); }); }, [&] { row = tile_row_zeros; });
    return row.get();
  }

  template <class T>
  void move(const TilePlane& plane, Global<uint8_t> to, U32 first_row, U32 slice, U32 row_bytes) {
    const uint32_t units = plane.bytes / uint32_t(sizeof(T));  // of a block
    k.loop(k.thread(), tile_values / tile_block_values(format) * units, pack_threads, [&](U32 i) {
      U32 block = i / units, unit = i % units;
      U32 row = source(first_row + block / across);
      U32 at = (slice * across + block % across) * block_bytes + unit * uint32_t(sizeof(T)) + plane.from;
      auto value = k.var(Loaded<T>(0));
      k.when(row < tile_row_keep && at < row_bytes, [&] {
        auto from = k.arg(&TilePack::Args::from) + (mul_wide(row, row_bytes) + widen(at));
        value = load(from.template as<T>(), {.nc = true});
      });
      k.when(row != tile_row_keep, [&] { store(to.offset(plane.at).template as<T>() + i, value.get()); });
    });
  }

  void write() {
    U32 cols = k.arg(&TilePack::Args::cols), rows = k.arg(&TilePack::Args::rows);
    U32 slices = (cols + (spec.tile_cols - 1)) / spec.tile_cols;
    U32 tile_row = k.block_id() / slices, slice = k.block_id() % slices;
    U32 row_bytes = cols / quant::block_values(format) * quant::block_bytes(format);
    U32 first_row = tile_row * shape.tile_rows();
    auto to = k.arg(&TilePack::Args::to) + mul_wide(k.block_id(), tile_bytes(format));
    k.when(first_row < rows, [&] {
      for (const TilePlane& plane : tile_planes(format)) switch (spec.from_align()) {
          case 1:
            move<uint8_t>(plane, to, first_row, slice, row_bytes);
            break;
          case 2:
            move<uint16_t>(plane, to, first_row, slice, row_bytes);
            break;
          default:
            move<uint32_t>(plane, to, first_row, slice, row_bytes);
        }
    });
  }
};

}  // namespace

uint32_t TilePack::from_align() const {
  switch (quant::Format(format)) {
    case quant::Format::mxfp4:
    case quant::Format::nvfp4:
      return 1;
    case quant::Format::f32:
    case quant::Format::q8_k:
      return 4;
    default:
      return 2;
  }
}

Kernel TilePack::build() const {
  check_fields(*this);
  Builder<Args> k(std::string(name), pack_threads);
  PackWriter{k, *this}.write();
  return k.finish();
}

Grid TilePack::grid(const Args& args) const {
  check_fields(*this);
  const auto weights = quant::Format(format);
  if (args.cols == 0 || args.cols % quant::block_values(weights))
    throw Error("tile_pack: {} columns of {} are not a positive multiple of {}", args.cols, quant::name(weights),
                quant::block_values(weights));
  if (args.to.address % 16 || args.from.address % from_align() || args.order.address % 4)
    throw Error(
        "tile_pack: the addresses of to, from and order are {:#x}, {:#x} and {:#x}, expected multiples of 16, {} "
        "and 4",
        args.to.address, args.from.address, args.order.address, from_align());
  const TileShape shape{weights, args.rows, args.cols, tile_cols};
  const uint64_t tiles = uint64_t(shape.row_tiles()) * shape.slices();
  if (tiles > 0x7fffffff) throw Error("tile_pack: {} x {} values are too many for one launch", args.rows, args.cols);
  return {.x = tiles ? uint32_t(tiles) : 1};  // an empty grid cannot be launched
}

// A block of 128 threads per tile, a piece per thread. The pieces' runs go through shared memory, so that the block
// writes whole rows of the tile: runs of 16 f16 would be sectors written in halves.
namespace {

constexpr uint32_t pieces = tile_values / 32;

// Clamps to the range of f16; NaN stays NaN.
F32 unpacked_within_f16(F32 v) { return select(v == v, max(min(v, 65504.0f), -65504.0f), v); }

// Chunks of 16 bytes, swizzled so that the pieces' runs and their neighbours are in different banks.
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
          words[n] = chunk_values == 4
                         ? bitcast<uint32_t>(v[from])
                         : bitcast<uint32_t>(to_f16x2(unpacked_within_f16(v[from]), unpacked_within_f16(v[from + 1])));
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
        k.when(row.get() != tile_row_skip, [&] {
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
      k.barrier();  // the codebook is complete, and the previous tile has been written
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
  // each block copies the codebook: no more blocks than run at once on the largest GPU
  const uint64_t limit = !quant::is_float(weights) && !block_format(weights).book().empty() ? 2048 : tiles;
  return {.x = tiles ? uint32_t(std::min(tiles, limit)) : 1};  // an empty grid cannot be launched
}

void add_tile_pack_kernels(std::vector<Entry>& all) {
  all.push_back(entry<TilePack>());
  all.push_back(entry<TileUnpack>());
}

}  // namespace heddle::kernels

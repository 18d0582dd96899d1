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
  const TileStrip strip = tile_strip(format, spec.tile_cols);

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
      U32 number = i / (strip.blocks() * units), in_strip = i - number * (strip.blocks() * units);
      U32 block = in_strip / units, unit = in_strip % units;
      U32 row = source(first_row + block / strip.across);
      U32 col = slice * (spec.tile_cols / tile_block_values(format)) + number * strip.across + block % strip.across;
      U32 at = col * block_bytes + unit * uint32_t(sizeof(T)) + plane.from;
      auto value = k.var(Loaded<T>(0));
      k.when(row < tile_row_keep && at < row_bytes, [&] {
        auto from = k.arg(&TilePack::Args::from) + (mul_wide(row, row_bytes) + widen(at));
        value = load(from.template as<T>(), {.nc = true});
      });
      k.when(row != tile_row_keep,
             [&] { store((to + number * strip.bytes).offset(plane.at).template as<T>() + in_strip, value.get()); });
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
      for (const TilePlane& plane : tile_planes(format, spec.tile_cols)) switch (spec.from_align()) {
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

void add_tile_pack_kernels(std::vector<Entry>& all) { all.push_back(entry<TilePack>()); }

}  // namespace heddle::kernels

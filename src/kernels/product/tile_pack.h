// Weights from the layout of the file to tiles, once while loading, and from tiles to rows of floats for products on
// the matrix units.
#pragma once
#include <compare>

#include "kernels/format/block_format.h"
#include "kernels/product/tile.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Entries of TilePack's `order`: write zeros to the packed row, or leave it as it is. With the second, one launch per
// source puts the rows of several sources into one matrix.
inline constexpr uint32_t tile_row_zeros = 0xffffffff, tile_row_keep = 0xfffffffe;

struct TilePack {
  static constexpr std::string_view name = "tile_pack", summary = "weights from the file's layout to tiles",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint8_t> to;      // TileShape::bytes(), 16-byte aligned
    ptx::DevicePtr<uint8_t> from;    // rows of cols values as in the file, aligned as from_align says
    ptx::DevicePtr<uint32_t> order;  // (rows): the row of `from` that each packed row takes; null: the same
    uint32_t rows, cols;             // of the packed matrix; padding rows and columns become zeros in every launch
  };
  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t tile_cols = 1024;
  auto operator<=>(const TilePack&) const = default;
  static auto fields() {
    return std::tuple(Field<TilePack>{"format", &TilePack::format, weight_formats()},
                      Field<TilePack>{"tile_cols", &TilePack::tile_cols, one_of({256, 512, 1024})});
  }
  uint32_t from_align() const;  // 1, 2 or 4

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

inline constexpr uint32_t tile_row_skip = 0xffffffff;  // in TileUnpack's `order`: do not unpack the row

// Packed rows first to first + rows - 1 as f16 or f32, with zeros in the columns from cols to ld. Values beyond the
// range of f16 become +-65504; NaN stays NaN.
struct TileUnpack {
  static constexpr std::string_view name = "tile_unpack", summary = "weights from tiles to rows of f16 or f32",
                                    lowest_target = "sm_80";
  struct Args {
    ptx::DevicePtr<uint8_t> to;      // rows of ld values, 16-byte aligned
    ptx::DevicePtr<uint8_t> w;       // tiles of a matrix with `cols` columns, 16-byte aligned
    ptx::DevicePtr<uint32_t> order;  // (rows): packed row p goes to row order[p] of `to`; null: to row p - first
    uint32_t rows, cols;             // rows to unpack
    uint32_t ld;                     // a multiple of 64
    uint32_t first;                  // a multiple of the rows of a tile
  };
  enum Out : uint32_t { to_f16, to_f32 };
  uint32_t format = uint32_t(quant::Format::q4_k);
  uint32_t tile_cols = 1024;
  uint32_t out = to_f16;
  uint32_t chained = 0;
  auto operator<=>(const TileUnpack&) const = default;
  static auto fields() {
    return std::tuple(Field<TileUnpack>{"format", &TileUnpack::format, weight_formats()},
                      Field<TileUnpack>{"tile_cols", &TileUnpack::tile_cols, one_of({256, 512, 1024})},
                      Field<TileUnpack>{"out", &TileUnpack::out, named({"f16", "f32"})},
                      Field<TileUnpack>{"chained", &TileUnpack::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

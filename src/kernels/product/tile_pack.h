// Weights from the layout of the file to tiles, once while loading.
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

}  // namespace heddle::kernels

// A warp moves a block: 2 bytes per lane and step, because that is all the alignment some formats have.
#include <algorithm>

#include "kernels/ring_gemv.h"

namespace heddle::kernels {

using namespace ptx;

const std::vector<RingFormat>& ring_formats() {
  static const std::vector<RingFormat> all{
      {quant::Format::q4_k, {{0, 16}, {16, 128}}},
      {quant::Format::q6_k, {{0, 128}, {128, 64}, {192, 16}, {208, 2}}},
  };
  return all;
}

uint64_t ring_bytes(uint32_t format, uint32_t rows, uint32_t cols) {
  const uint64_t filled = (uint64_t(rows) + ring_unit_rows - 1) / ring_unit_rows * ring_unit_rows;
  return filled * (cols / 256) * ring_formats().at(format).block_bytes();
}

Kernel RingPack::build() const {
  check_fields(*this);
  const RingFormat& f = ring_formats()[format];
  Builder<Args> k(std::string(name), 256);
  U32 rows = k.arg(&Args::rows), blocks = k.arg(&Args::cols) / 256u;
  U32 row = k.block_y() * 8u + k.warp();
  U32 filled = (rows + (ring_unit_rows - 1)) / ring_unit_rows * ring_unit_rows;
  k.when(row < filled, [&] {
    k.loop(k.block_id(), blocks, k.grid_x(), [&](U32 b) {
      U64 tile = mul_wide(row >> 2u, blocks >> 2u) + widen(b >> 2u);
      auto to = k.arg(&Args::to) + tile * uint64_t(f.tile_bytes());
      auto from = k.arg(&Args::from) + (mul_wide(row, blocks) + widen(b)) * uint64_t(f.block_bytes());
      U32 in_tile = (row & 3u) * 4u + (b & 3u);
      uint32_t plane_at = 0;
      for (const RingPlane& plane : f.planes) {
        for (uint32_t at = 0; at < plane.bytes; at += 64) {
          U32 byte = k.lane() * 2u + at;
          auto move = [&] {
            auto word = k.var(uint16_t(0));
            k.when(row < rows, [&] { word = load((from + byte).offset(plane.from).as<uint16_t>()); });
            store((to + (in_tile * plane.bytes + byte)).offset(plane_at).as<uint16_t>(), word.get());
          };
          if (at + 64 <= plane.bytes)
            move();
          else
            k.when(byte < plane.bytes, move);
        }
        plane_at += 16 * plane.bytes;
      }
    });
  });
  return k.finish();
}

Grid RingPack::grid(const Args& args) const {
  if (args.cols == 0 || args.cols % ring_tile_cols)
    throw Error("ring_pack: {} columns are not a positive multiple of {}", args.cols, ring_tile_cols);
  if (args.from.address % 2 || args.to.address % 16)
    throw Error("ring_pack: from must be 2-byte aligned and to 16-byte aligned");
  const uint32_t blocks = args.cols / 256, y = (args.rows + ring_unit_rows - 1) / ring_unit_rows * 2;
  if (y > 65535) throw Error("ring_pack: {} rows are more than 524280 in one launch", args.rows);
  return {.x = std::min(blocks, 16u), .y = y ? y : 1};
}

}  // namespace heddle::kernels

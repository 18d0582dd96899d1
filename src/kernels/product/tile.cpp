// Sizes of tiles and where their planes lie.
#include "kernels/product/tile.h"

#include "kernels/format/block_format.h"

namespace heddle::kernels {

namespace {

constexpr uint32_t float_block = 32;

// For f64, which kernels do not read, block_format throws.
bool is_plain(quant::Format format) { return quant::is_float(format) && format != quant::Format::f64; }

}  // namespace

uint32_t tile_block_values(quant::Format format) {
  return is_plain(format) ? float_block : block_format(format).values;
}

uint32_t tile_block_bytes(quant::Format format) {
  return is_plain(format) ? float_block * quant::block_bytes(format) : block_format(format).bytes;
}

uint32_t tile_bytes(quant::Format format) { return tile_values / tile_block_values(format) * tile_block_bytes(format); }

std::vector<TilePlane> tile_planes(quant::Format format) {
  const uint32_t blocks = tile_values / tile_block_values(format);
  std::vector<uint32_t> fields;
  if (is_plain(format))
    fields.assign(tile_block_bytes(format) / 16, 16);
  else
    fields = block_format(format).fields;
  std::vector<TilePlane> planes;
  uint32_t from = 0;
  for (uint32_t bytes : fields) {
    planes.push_back({.from = from, .bytes = bytes, .at = from * blocks});
    from += bytes;
  }
  return planes;
}

uint32_t tile_cols_for(uint32_t cols) {
  uint32_t best = 0;
  uint64_t least = 0;
  for (uint32_t width : {1024u, 512u, 256u}) {
    const uint64_t filled = (uint64_t(cols) + width - 1) / width * width, waste = filled - cols;
    if (waste * 100 <= uint64_t(cols) * 3) return width;
    if (!best || waste < least) {
      best = width;
      least = waste;
    }
  }
  return best;
}

}  // namespace heddle::kernels

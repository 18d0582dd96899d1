// Many rows: tiles become slabs, and rows come in runs that stay in the cache while they meet all of them.
#include "cpu/tiles.h"

#include <algorithm>
#include <cstring>

namespace heddle::cpu {
namespace {

constexpr uint32_t rows_at_once = 32;  // of activations: they stay in L2 while they meet the tiles of a slab

}  // namespace

uint64_t slab_bytes(const Weights& weights, const Isa& isa, uint32_t tiles) {
  const SlabShape& shape = isa.tiles[unsigned(weights.format)].slab;
  return weights.cols / shape.values * (shape.bytes + shape.room) * isa.tile_rows * tiles;
}

void multiply_tiles(const Weights& weights, const Isa& isa, uint64_t first, uint32_t tiles, const XRow* xs,
                    uint32_t count, float* out, uint8_t* slab) {
  const TileKernels& kernels = isa.tiles[unsigned(weights.format)];
  const uint32_t cols = uint32_t(weights.cols), stride = tiles * isa.tile_rows;
  const uint8_t* tile = weights.data + first * weights.tile_bytes;
  if (count <= kernels.most_few) return kernels.few(tile, tiles, cols, xs, count, out);

  const uint64_t bytes = slab_bytes(weights, isa, 1);
  for (uint32_t begin = 0; begin < tiles; begin += slab_tiles) {
    const uint32_t end = std::min(tiles, begin + slab_tiles);
    for (uint32_t t = begin; t < end; ++t) {
      kernels.fill(tile + t * weights.tile_bytes, cols, slab + (t - begin) * bytes);
      if (isa.arrange) isa.arrange(slab + (t - begin) * bytes, kernels.slab, cols);
    }
    for (uint32_t row = 0; row < count; row += rows_at_once)
      for (uint32_t t = begin; t < end; ++t)
        kernels.many(slab + (t - begin) * bytes, cols, kernels.slab.offset, xs + row,
                     std::min(rows_at_once, count - row), out + row * stride + t * isa.tile_rows, stride);
  }
}

void decode_tile_row(const Weights& weights, const Isa& isa, uint64_t row, float* out, uint8_t* slab) {
  const TileKernels& kernels = isa.tiles[unsigned(weights.format)];
  const SlabShape& shape = kernels.slab;
  const uint32_t rows = isa.tile_rows, r = uint32_t(row % rows), cols = uint32_t(weights.cols);
  kernels.fill(weights.data + row / rows * weights.tile_bytes, cols, slab);
  const auto word_at = [&]<class T>(uint32_t field, T) {
    T value;
    std::memcpy(&value, slab + field * rows + r * 4, 4);
    return value;
  };
  const auto byte_at = [&](uint32_t field, uint32_t index) {
    return slab[(field + index / 4 * 4) * rows + r * 4 + index % 4];
  };
  for (uint32_t b = 0; b < cols / shape.values; ++b, slab += shape.bytes * rows) {
    const float d = word_at(shape.d_field(), 0.0f), m = shape.mins == Mins::none ? 0 : word_at(shape.m_field(), 0.0f);
    for (uint32_t i = 0; i < shape.values; ++i) {
      const uint8_t byte = byte_at(0, i);
      const int q = shape.is_signed ? int(int8_t(byte)) : int(byte) - shape.offset;
      const uint32_t g = i / shape.group;
      const float scale = shape.has_groups() ? d * float(word_at(shape.scale_field() + 4 * g, 0)) : d;
      float value = scale * float(q);
      if (shape.mins == Mins::scaled) value -= m * float(byte_at(shape.min_field(), g));
      if (shape.mins == Mins::plain) value += m;
      *out++ = value;
    }
  }
}

}  // namespace heddle::cpu

// Few rows: a piece is as many tiles as make its share of the bytes. Many rows: a piece is the tiles of one slab.
#include "cpu/products.h"

#include "cpu/tiles.h"

namespace heddle::cpu {
namespace {

constexpr uint32_t few_rows = 9;     // below it few formats need a slab
constexpr uint32_t most_tiles = 32;  // of a piece with few rows

}  // namespace

Products::Products(const Isa& isa, Team& team, const std::deque<Weights>& all, uint32_t rows)
    : isa_(isa), team_(team), scratch_(team.threads()) {
  uint64_t slab = 0, decoded = 0;
  for (const Weights& weights : all) {
    if (weights.kind == XKind::f32)
      decoded = std::max(decoded, weights.cols * weights.tile_rows);
    else
      slab = std::max(slab, slab_bytes(weights, isa));
  }
  const uint64_t values = std::max(uint64_t(few_rows) * most_tiles, uint64_t(rows) * slab_tiles) * isa.tile_rows;
  for (Scratch& scratch : scratch_) {
    scratch.slab = Pages(slab);
    scratch.decoded.resize(decoded);
    scratch.values.resize(values);
    scratch.second.resize(values);
  }
}

void Products::plan(std::span<const Product> products) {
  uint64_t bytes = 0;
  for (const Product& product : products)
    bytes +=
        product.weights->tiles() * (product.weights->tile_bytes + (product.second ? product.second->tile_bytes : 0));
  // Eight pieces for each thread: the last one to finish keeps the others waiting for an eighth of its time at most.
  const uint64_t share = bytes / (uint64_t(team_.threads()) * 8) + 1;
  pieces_.clear();
  for (uint32_t p = 0; p < products.size(); ++p) {
    const Product& product = products[p];
    if (product.x.count == 0) continue;
    const uint64_t tile_bytes = product.weights->tile_bytes + (product.second ? product.second->tile_bytes : 0);
    const uint64_t most = product.x.count < few_rows ? most_tiles : slab_tiles;
    const uint64_t tiles = std::clamp<uint64_t>(share / tile_bytes, 1, most);
    for (uint64_t first = 0; first < product.weights->tiles(); first += tiles)
      pieces_.push_back({p, uint32_t(std::min(tiles, product.weights->tiles() - first)), first});
  }
}

Piece Products::compute(std::span<const Product> products, const Range& range, uint32_t thread) {
  const Product& product = products[range.product];
  Scratch& scratch = scratch_[thread];
  multiply(*product.weights, range, product.x, scratch, scratch.values.data());
  if (product.second) multiply(*product.second, range, product.x, scratch, scratch.second.data());
  const uint64_t first = range.first * isa_.tile_rows;
  const uint64_t rows = std::min<uint64_t>(uint64_t(range.tiles) * isa_.tile_rows, product.weights->rows - first);
  return {range.product,
          first,
          uint32_t(rows),
          product.x.count,
          range.tiles * isa_.tile_rows,
          scratch.values.data(),
          product.second ? scratch.second.data() : nullptr};
}

void Products::multiply(const Weights& weights, const Range& range, const RowsView& x, Scratch& scratch, float* out) {
  if (weights.kind == XKind::f32) return multiply_floats(weights, range, x, scratch, out);
  multiply_tiles(weights, isa_, range.first, range.tiles, weights.kind == XKind::by_32 ? x.by_32 : x.by_256, x.count,
                 out, scratch.slab.data());
}

void Products::multiply_floats(const Weights& weights, const Range& range, const RowsView& x, Scratch& scratch,
                               float* out) {
  using quant::Format;
  const uint32_t cols = uint32_t(weights.cols), stride = range.tiles * weights.tile_rows;
  for (uint32_t t = 0; t < range.tiles; ++t) {
    const uint64_t first = (range.first + t) * weights.tile_rows;
    const uint32_t rows = uint32_t(std::min<uint64_t>(weights.tile_rows, weights.rows - first));
    const uint8_t* at = weights.data + (range.first + t) * weights.tile_bytes;
    float *decoded = scratch.decoded.data(), *to = out + t * weights.tile_rows;
    const uint32_t values = rows * cols;
    // a few rows are done before all weights would be written as f32
    if (weights.format == Format::f32 || (weights.format <= Format::bf16 && x.count <= 4)) {
      isa_.dots[unsigned(weights.format)](at, rows, cols, x.f32, x.count, to, stride);
      continue;
    }
    if (weights.format == Format::f16)
      isa_.f32_of_f16(at, values, decoded);
    else if (weights.format == Format::bf16)
      isa_.f32_of_bf16(at, values, decoded);
    else
      quant::decode(weights.format, at, values, decoded);
    isa_.dots[unsigned(Format::f32)](decoded, rows, cols, x.f32, x.count, to, stride);
  }
}

}  // namespace heddle::cpu

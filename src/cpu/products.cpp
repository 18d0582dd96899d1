// Few rows: a piece is as many tiles as make its share of the bytes. Many rows: a piece is the tiles of one slab with
// some of the rows, and these come in runs that stay in the cache while they meet all of its tiles.
#include "cpu/products.h"

#include <cstring>
#include <utility>

#include "cpu/pack_pairs.h"
#include "cpu/prefetch.h"

namespace heddle::cpu {
namespace {

constexpr uint32_t few_rows = 33;             // below it few formats need a slab
constexpr uint32_t max_tiles = 32;            // of a piece with few rows
constexpr uint32_t pairs_tiles = 16;          // of a piece with many rows and tiles in pairs: x is written for each
constexpr uint64_t bytes_on_use = 128 << 10;  // of a piece that is packed on use: it stays in L2 until it is multiplied
constexpr uint32_t rows_at_once = 32;         // of activations: they stay in L2 while they meet the tiles of a slab
// Of the next phase, what a thread prefetches while it waits: 128 to 512 KB gave 5 to 7 % of one stream on 16 cores.
constexpr uint64_t bytes_while_waiting = 256 << 10;
constexpr uint64_t bytes_of_next = 16 << 10;  // of the next piece
// Rows of a piece, at least, where rows are divided: a slab must pay for its filling.
constexpr uint32_t min_rows_of_slab = 256, min_rows_of_packed = 128;

uint64_t max_tiles_of(const Weights& weights, uint32_t limit) {
  return weights.packed_on_use ? std::clamp<uint64_t>(bytes_on_use / weights.tile_bytes, 1, limit) : limit;
}

}  // namespace

uint64_t slab_bytes(const Weights& weights, const Isa& isa, uint32_t tiles) {
  const TileKernels& kernels = isa.tiles[unsigned(weights.tile_format)];
  const uint64_t of_few = kernels.few_scratch ? kernels.few_scratch(uint32_t(weights.cols)) : 0;
  if (weights.pairs) return of_few;
  return std::max(of_few, weights.cols / kernels.slab.values * kernels.slab.bytes * isa.tile_rows * tiles);
}

void multiply_tiles(const Weights& weights, const Isa& isa, uint64_t first, uint32_t tiles, const XRow* xs,
                    uint32_t count, float* out, uint8_t* slab) {
  const TileKernels& kernels = isa.tiles[unsigned(weights.tile_format)];
  const uint32_t cols = uint32_t(weights.cols), stride = tiles * isa.tile_rows;
  const uint8_t* tile = weights.data + first * weights.tile_bytes;
  if (count <= kernels.max_few) return kernels.few(tile, tiles, cols, xs, count, out, slab);

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
  if (weights.pairs)
    return decode_pair_row(weights.tile_format, weights.data + row / isa.tile_rows * weights.tile_bytes,
                           uint32_t(row % isa.tile_rows), weights.blocks(), out);
  const TileKernels& kernels = isa.tiles[unsigned(weights.tile_format)];
  const SlabShape& shape = kernels.slab;
  const uint32_t rows = isa.tile_rows, r = uint32_t(row % rows), cols = uint32_t(weights.cols);
  if (weights.kind == XKind::bf16) {
    const uint8_t* at = weights.data + row / rows * weights.tile_bytes + r * 4;
    for (uint32_t c = 0; c < cols; c += 2, at += rows * 4) quant::decode(weights.tile_format, at, 2, out + c);
    return;
  }
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

Products::Products(const Isa& isa, Team& team, const std::deque<Weights>& all, uint32_t rows)
    : isa_(isa), team_(team), scratch_(team.threads()) {
  uint64_t slab = 0, decoded = 0, tiles = 0;
  for (const Weights& weights : all) {
    if (weights.kind != XKind::f32)
      slab = std::max(slab, slab_bytes(weights, isa));
    else if (weights.format > quant::Format::bf16)
      decoded = std::max(decoded, weights.cols * weights.tile_rows);
    if (weights.packed_on_use) tiles = std::max(tiles, max_tiles_of(weights, max_tiles) * weights.tile_bytes);
  }
  const uint64_t values = std::max(uint64_t(few_rows) * max_tiles, uint64_t(rows) * pairs_tiles) * isa.tile_rows;
  for (Scratch& scratch : scratch_) {
    scratch.slab = Pages(slab);
    scratch.tiles = Pages(tiles);
    scratch.decoded.resize(decoded);
    scratch.values = Pages(values * sizeof(float));
    scratch.second = Pages(values * sizeof(float));
  }
}

void Products::plan(std::span<const Product> products, std::vector<Range>& pieces) const {
  const auto tile_bytes_of = [](const Product& product) {
    return product.weights->tile_bytes + (product.second ? product.second->tile_bytes : 0);
  };
  // Without the experts that no row chose: those that were chosen are shared by all threads.
  uint64_t bytes = 0;
  for (const Product& product : products)
    if (product.x.count > 0) bytes += product.weights->tiles() * tile_bytes_of(product);
  // Eight pieces for each thread: the last one to finish keeps the others waiting for an eighth of its time at most.
  // Where that one may be slow, sixteen: with half of the cores at half speed, threads wait for 4 % and not for 12 %.
  const uint64_t of_thread = team_.differ_in_speed() ? 16 : 8, share = bytes / (team_.threads() * of_thread) + 1;
  pieces.clear();
  for (uint32_t p = 0; p < products.size(); ++p) {
    const Product& product = products[p];
    const uint32_t count = product.x.count;
    if (count == 0) continue;
    const uint64_t all = product.weights->tiles(), tile_bytes = tile_bytes_of(product);
    const auto at_most = [&](uint32_t limit) {
      const uint64_t own = max_tiles_of(*product.weights, limit);
      return product.second ? std::min(own, max_tiles_of(*product.second, limit)) : own;
    };
    const bool enough = all >= uint64_t(pairs_tiles) * 2 * team_.threads();
    const uint32_t many_tiles = product.weights->pairs && enough ? pairs_tiles : slab_tiles;
    uint64_t tiles = std::clamp<uint64_t>(share / tile_bytes, 1, at_most(count < few_rows ? max_tiles : many_tiles));
    // Many rows are divided rather than the tiles of a slab, which would each read all of x, if that leaves enough
    // pieces.
    const bool packed = !product.weights->pairs && !isa_.tiles[unsigned(product.weights->tile_format)].many;
    const uint64_t slabs = (all + many_tiles - 1) / many_tiles;
    const uint64_t parts = std::min<uint64_t>((all * tile_bytes / share + slabs - 1) / slabs,
                                              count / (packed ? min_rows_of_packed : min_rows_of_slab));
    uint32_t rows = count;
    if (parts > 1 && slabs * parts >= 2 * team_.threads()) {
      tiles = at_most(many_tiles);
      rows = uint32_t((count + parts - 1) / parts + rows_at_once - 1) / rows_at_once * rows_at_once;
    }
    for (uint64_t first = 0; first < all; first += tiles)
      for (uint32_t row = 0; row < count; row += rows)
        pieces.push_back({p, uint32_t(std::min(tiles, all - first)), first, row, std::min(rows, count - row)});
  }
  // Each thread gets the part of each matrix that it has packed, which lies on its node.
  if (products.size() < 2 || team_.nodes().size() < 2) return;
  const auto place = [&](const Range& piece) {  // of its middle
    return (double(piece.first) + piece.tiles / 2.0) / double(products[piece.product].weights->tiles());
  };
  std::stable_sort(pieces.begin(), pieces.end(), [&](const Range& a, const Range& b) { return place(a) < place(b); });
}

std::vector<Team::Prefetch> Products::first_reads(std::span<const Product> products,
                                                  const std::vector<Range>& pieces) const {
  std::vector<Team::Prefetch> reads(team_.threads());
  for (uint32_t thread = 0; thread < team_.threads(); ++thread) {
    const uint64_t item = team_.first_item(pieces.size(), thread);
    if (item == pieces.size()) continue;
    const Range& range = pieces[item];
    const Product& product = products[range.product];
    if (product.weights->packed_on_use) continue;
    const auto at = [&](const Weights* weights) {
      return weights ? weights->data + range.first * weights->tile_bytes : nullptr;
    };
    const uint64_t rest = (product.weights->tiles() - range.first) * product.weights->tile_bytes;
    reads[thread] = {at(product.weights), at(product.second),
                     std::min(rest, product.second ? bytes_while_waiting / 2 : bytes_while_waiting)};
  }
  return reads;
}

// Each step of a model has the same phases: after this one comes what came after it the last time, but for experts.
void Products::look_ahead(std::span<const Product> products, std::span<const Product> next) {
  const Weights* const first = products.empty() ? nullptr : products[0].weights;
  Phase& phase = phases_[first];
  phase.first_reads.clear();
  if (std::ranges::all_of(products, [](const Product& product) { return product.x.count > 0; }))
    phase.first_reads = first_reads(products, pieces_);
  phases_[std::exchange(last_, first)].next = first;
  std::vector<Team::Prefetch> reads;
  if (!next.empty()) {
    reads = first_reads(next);
  } else if (const auto known = phases_.find(phases_[first].next); known != phases_.end()) {
    reads = known->second.first_reads;
  }
  reads.resize(team_.threads());
  for (uint32_t thread = 0; thread < team_.threads(); ++thread) team_.prefetch_while_waiting(thread, reads[thread]);
}

void Products::prefetch_next_piece(std::span<const Product> products, uint64_t item) const {
  if (item + 1 >= pieces_.size()) return;
  const Range &range = pieces_[item], &next = pieces_[item + 1];
  if (next.product == range.product) return;
  const Product& product = products[next.product];
  for (const Weights* weights : {product.weights, product.second}) {
    if (!weights || weights->packed_on_use) continue;
    const uint8_t* at = weights->data + next.first * weights->tile_bytes;
    prefetch(at, std::min(bytes_of_next, next.tiles * weights->tile_bytes));
  }
}

Piece Products::compute(std::span<const Product> products, const Range& range, uint32_t thread) {
  const Product& product = products[range.product];
  Scratch& scratch = scratch_[thread];
  const RowsView x = product.x.part(range.row, range.count);
  float* const values = reinterpret_cast<float*>(scratch.values.data());
  float* const second = reinterpret_cast<float*>(scratch.second.data());
  multiply(*product.weights, range, x, scratch, values);
  if (product.second) multiply(*product.second, range, x, scratch, second);
  const uint64_t first = range.first * isa_.tile_rows;
  const uint64_t rows = std::min<uint64_t>(uint64_t(range.tiles) * isa_.tile_rows, product.weights->rows - first);
  return {range.product,  first,
          uint32_t(rows), range.row,
          range.count,    range.tiles * isa_.tile_rows,
          values,         product.second ? second : nullptr};
}

void Products::multiply(const Weights& weights, const Range& range, const RowsView& x, Scratch& scratch, float* out) {
  if (weights.kind == XKind::f32) return multiply_floats(weights, range, x, scratch, out);
  const XRow* xs = x.of(weights.kind);
  if (!weights.packed_on_use)
    return multiply_tiles(weights, isa_, range.first, range.tiles, xs, x.count, out, scratch.slab.data());
  pack_tiles(weights.matrix(), weights, range.first, range.tiles, scratch.tiles.data());
  Weights packed = weights;
  packed.data = scratch.tiles.data();
  multiply_tiles(packed, isa_, 0, range.tiles, xs, x.count, out, scratch.slab.data());
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
    if (weights.format <= Format::bf16) {
      isa_.dots[unsigned(weights.format)](at, rows, cols, x.f32, x.count, to, stride);
      continue;
    }
    quant::decode(weights.format, at, rows * cols, decoded);
    isa_.dots[unsigned(Format::f32)](decoded, rows, cols, x.f32, x.count, to, stride);
  }
}

}  // namespace heddle::cpu

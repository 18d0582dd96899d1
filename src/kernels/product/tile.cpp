// Sizes of tiles, where their planes lie, and what a lane reads of a tile.
#include "kernels/product/tile.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "kernels/format/block_format.h"
#include "kernels/spec/functions.h"

namespace heddle::kernels {

// Sizes of tiles and where their planes lie.

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

namespace {

std::vector<TilePlane> planes_of(quant::Format format, uint32_t blocks) {
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

// Whether each plane begins at a multiple of 16 bytes. Asked thousands of times by searches for a fast kernel: no list
// of planes is made for it.
bool planes_are_aligned(quant::Format format, uint32_t blocks) {
  if (is_plain(format)) return true;  // fields of 16 bytes
  uint32_t from = 0;
  for (uint32_t bytes : block_format(format).fields) {
    if (from * blocks % 16 != 0) return false;
    from += bytes;
  }
  return true;
}

}  // namespace

TileStrip tile_strip(quant::Format format, uint32_t tile_cols) {
  const uint32_t rows = tile_values / tile_cols, values = tile_block_values(format);
  for (uint32_t cols = std::max(values, 128u);; cols *= 2) {
    const TileStrip strip{
        .rows = rows, .cols = cols, .across = cols / values, .bytes = rows * cols / values * tile_block_bytes(format)};
    if (strip.bytes % 16 == 0 && planes_are_aligned(format, strip.blocks())) return strip;
  }
}

std::vector<TilePlane> tile_planes(quant::Format format, uint32_t tile_cols) {
  return planes_of(format, tile_strip(format, tile_cols).blocks());
}

uint32_t tile_apart(quant::Format format) { return is_plain(format) ? 16 : block_format(format).apart; }

uint32_t codebook_bytes(quant::Format format) {
  static const std::map<quant::Format, uint32_t> all = [] {
    std::map<quant::Format, uint32_t> sizes;
    for (quant::Format f : known_formats)
      if (!quant::is_float(f)) sizes[f] = uint32_t(block_format(f).book().size() * 4);
    return sizes;
  }();
  const auto found = all.find(format);
  return found == all.end() ? 0 : found->second;
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

// From a tile to a lane's values, or to its share of dot products.

using namespace ptx;

// The bytes of one block, spread over the planes of a strip.
template <Space S>
class BlockInTile : public BlockBytes {
 public:
  // `block`: of a strip; `before`: blocks of the steps before it.
  BlockInTile(std::vector<TilePlane> planes, Ptr<uint8_t, S> strip, uint32_t before, U32 block, Access how)
      : planes_(std::move(planes)), strip_(strip), before_(before), block_(block), how_(how) {}

  std::vector<U32> words(uint32_t offset, uint32_t n, U32 at) const override {
    std::vector<U32> all;
    if (n == 8)  // of two planes
      for (uint32_t half : {0u, 16u})
        for (U32 w : words(offset + half, 4, at)) all.push_back(w);
    else if (n == 4)
      for (U32 w : load_vec<4>(place(offset, at).template as<uint32_t>(), how_)) all.push_back(w);
    else if (n == 2)
      for (U32 w : load_vec<2>(place(offset, at).template as<uint32_t>(), how_)) all.push_back(w);
    else
      all.push_back(load(place(offset, at).template as<uint32_t>(), how_));
    return all;
  }
  U32 half(uint32_t offset, U32 at) const override {
    return to<uint32_t>(load(place(offset, at).template as<uint16_t>(), how_));
  }
  U32 byte(uint32_t offset, U32 at) const override { return load(place(offset, at), how_); }
  U32 signed_byte(uint32_t offset, U32 at) const override {
    return bitcast<uint32_t>(load(place(offset, at).template as<int8_t>(), how_));
  }

 private:
  Ptr<uint8_t, S> place(uint32_t offset, U32 at) const {
    for (const TilePlane& plane : planes_)
      if (offset >= plane.from && offset < plane.from + plane.bytes) {
        U32 in_plane = block_ * plane.bytes;
        if (at.rec) in_plane = in_plane + at;
        return (strip_ + in_plane).offset(plane.at + before_ * plane.bytes + (offset - plane.from));
      }
    throw Error("a block has no byte {}", offset);
  }

  std::vector<TilePlane> planes_;
  Ptr<uint8_t, S> strip_;
  uint32_t before_;
  U32 block_;
  Access how_;
};

namespace {

template <Space S>
Raw load_blocks(const BlockFormat& format, const BlockInTile<S>& block, const Lane& lane) {
  auto head = format.load_head(block, lane);
  return {.head = std::move(head), .quants = format.load_quants(block, lane)};
}
template <Space S>
std::vector<U32> load_float_words(quant::Format format, const BlockInTile<S>& block) {
  std::vector<U32> words;
  for (uint32_t at = 0; at < tile_block_bytes(format); at += 16)
    for (U32 w : block.words(at, 4, {})) words.push_back(w);
  return words;
}
template <Space S>
std::vector<F32> load_plain(quant::Format format, const BlockInTile<S>& block) {
  return decode_floats(format, load_float_words(format, block));
}

}  // namespace

// The block of this lane's piece in a step, of the tile or strip at w.
template <Space S>
BlockInTile<S> TilePiece::block_in(Ptr<uint8_t, S> w, uint32_t step, Access how) const {
  const uint32_t rows = step * 1024 / row_cols_;
  return {tile_planes(format_, tile_values / strip_.rows), before_.rec ? w + before_ : w, rows * strip_.across, block_,
          how};
}

TilePiece::TilePiece(Code& k, quant::Format format, uint32_t tile_cols, U32 lane, Codebook book)
    : TilePiece(k, format, tile_cols, tile_cols, lane / (tile_cols / 32), lane % (tile_cols / 32), book) {}

TilePiece TilePiece::in_strip(Code& k, quant::Format format, uint32_t tile_cols, U32 row, U32 piece, Codebook book) {
  return {k, format, tile_cols, tile_strip(format, tile_cols).cols, row, piece, book};
}

TilePiece::TilePiece(Code& k, quant::Format format, uint32_t tile_cols, uint32_t row_cols, U32 row, U32 in_row,
                     Codebook book)
    : format_(format),
      blocks_(quant::is_float(format) ? nullptr : &block_format(format)),
      strip_(tile_strip(format, tile_cols)),
      row_cols_(row_cols),
      row_(row),
      in_row_(in_row),
      lane_{.piece = in_row & ((blocks_ ? blocks_->pieces() : 1) - 1)} {
  check(tile_cols == 256 || tile_cols == 512 || tile_cols == 1024, "a tile has 256, 512 or 1024 columns");
  U32 block = blocks_ ? in_row / blocks_->pieces() : in_row;
  if (row_cols > strip_.cols) {
    before_ = block / strip_.across * strip_.bytes;
    block = block % strip_.across;
  }
  block_ = row * strip_.across + block;
  if (!blocks_) return;
  lane_.book = book;
  if (const auto words = blocks_->book(); !words.empty() && !book) lane_.book = Codebook(k.constants(words));
}

Codebook TilePiece::codebook(Code& k, quant::Format format) {
  if (quant::is_float(format)) return {};
  const auto words = block_format(format).book();
  if (words.empty()) return {};
  auto from = k.constants(words);
  auto to = k.shared<uint32_t>(uint32_t(words.size()));
  k.loop(k.thread(), uint32_t(words.size()), k.threads(), [&](U32 i) { store(to + i, load(from + i)); });
  return Codebook(to);
}

U32 TilePiece::row_in_step() const { return row_; }

U32 TilePiece::run(uint32_t i) const {
  if (!blocks_) return in_row_ * 32u + 16 * i;
  return in_row_ / blocks_->pieces() * blocks_->values + blocks_->first(lane_) + i * blocks_->apart;
}

std::vector<F32> TilePiece::dot(Shared<uint8_t> w, uint32_t step, const std::vector<Q8>& x) const {
  check(blocks_, "floats have no integer dot product");
  const BlockInTile<Space::shared> block = block_in(w, step, {});
  const std::array<Run, 2> runs = blocks_->decode_unsigned(load_blocks(*blocks_, block, lane_), lane_);
  // 2^23 + 2^22 as bits: added to an integer below 2^22 it makes the float 2^23 + 2^22 + integer, without a conversion
  constexpr int32_t above = 0x4b400000;
  std::vector<F32> dots;
  for (const Q8& column : x) {
    std::vector<F32> parts;
    for (uint32_t i = 0; i < 2; ++i) {
      auto product = [&](U32 q, U32 v, Arg<int32_t> sum) {
        return runs[i].has_min ? dp4a<uint8_t, int8_t>(q, v, sum) : dp4a<int8_t, int8_t>(q, v, sum);
      };
      S32 sum = product(runs[i].q[0], column.q[i][0], above);
      for (uint32_t j = 1; j < 4; ++j) sum = product(runs[i].q[j], column.q[i][j], sum);
      F32 part = (bitcast<float>(sum) - (0x1p23f + 0x1p22f)) * column.d[i] * runs[i].scale;
      parts.push_back(runs[i].has_min ? fma(-runs[i].min, column.sum[i], part) : part);
    }
    dots.push_back(parts[0] + parts[1]);
  }
  return dots;
}

std::vector<F32> TilePiece::dot(Shared<uint8_t> w, uint32_t step, const std::vector<Floats>& x) const {
  const BlockInTile<Space::shared> block = block_in(w, step, {});
  std::vector<F32> dots;
  auto products = [&](const std::vector<F32>& v, uint32_t first, const Floats& column) {
    F32 sum = v[0] * column.v[first];
    for (uint32_t i = 1; i < v.size(); ++i) sum = fma(v[i], column.v[first + i], sum);
    return sum;
  };
  if (!blocks_) {
    const std::vector<F32> v = load_plain(format_, block);
    for (const Floats& column : x) dots.push_back(products(v, 0, column));
    return dots;
  }
  const std::array<Run, 2> runs = blocks_->decode(load_blocks(*blocks_, block, lane_), lane_);
  for (uint32_t i = 0; i < 2; ++i) {
    std::vector<F32> v = to_floats(runs[i]);
    if (runs[i].has_min)
      for (F32& value : v) value = fma(value, runs[i].scale, -runs[i].min);
    for (uint32_t c = 0; c < x.size(); ++c) {
      F32 sum = products(v, 16 * i, x[c]);
      if (!runs[i].has_min) sum = sum * runs[i].scale;  // the same for the run
      if (i)
        dots[c] = dots[c] + sum;
      else
        dots.push_back(sum);
    }
  }
  return dots;
}

template <Space S>
Raw TilePiece::raw(Ptr<uint8_t, S> w) const {
  const BlockInTile<S> block = block_in(w, 0, {.nc = S == Space::global});
  if (blocks_) return load_blocks(*blocks_, block, lane_);
  return {.head = {}, .quants = load_float_words(format_, block)};
}
template Raw TilePiece::raw(Shared<uint8_t> w) const;
template Raw TilePiece::raw(Global<uint8_t> w) const;

std::vector<U32> TilePiece::halves(const Raw& raw) const {
  if (blocks_) return blocks_->halves(raw, lane_, half_factor(format_));
  std::vector<U32> all;
  if (format_ == quant::Format::f16) {
    for (size_t i = 0; i < raw.quants.size(); i += 2)
      for (uint32_t selector : {0x5410u, 0x7632u})
        all.push_back(permute_bytes(raw.quants[i], raw.quants[i + 1], selector));
    return all;
  }
  const std::vector<F32> v = decode_floats(format_, raw.quants);
  for (size_t i = 0; i < v.size(); i += 4)
    for (size_t j : {i, i + 1}) all.push_back(bitcast<uint32_t>(to_f16x2(within_f16(v[j]), within_f16(v[j + 2]))));
  return all;
}

std::vector<F32> TilePiece::values(Global<uint8_t> w, uint32_t step) const {
  const BlockInTile<Space::global> block = block_in(w, step, {.nc = true});
  if (!blocks_) return load_plain(format_, block);
  std::vector<F32> all;
  for (const Run& run : blocks_->decode(load_blocks(*blocks_, block, lane_), lane_))
    for (F32 v : to_floats(run)) {
      F32 scaled = v * run.scale;
      all.push_back(run.has_min ? scaled - run.min : scaled);
    }
  return all;
}

}  // namespace heddle::kernels

// The dot products of one step of a gemv: a lane's weights times its values of x.
#pragma once
#include "kernels/format/block_format.h"
#include "kernels/product/gemv.h"
#include "quant/q8_1.h"

namespace heddle::kernels {

// The weights of a gemv as a lane sees them: a row is divided into steps of 32 pieces, one for each lane of a warp.
// Block formats and floats have the same interface.
class GemvWeights {
 public:
  explicit GemvWeights(const Gemv& spec)
      : format(spec.weights()),
        blocks(quant::is_float(format) ? nullptr : &block_format(format)),
        load_bytes(spec.load),
        narrow(blocks && spec.load == 4),
        shuffled(spec.scales == Gemv::shuffled) {}

  const quant::Format format;
  const BlockFormat* const blocks;  // null for floats
  const uint32_t load_bytes;
  const bool narrow, shuffled;

  uint32_t values_of_float_load() const { return load_bytes / quant::block_bytes(format); }
  uint32_t values_per_lane() const { return !blocks ? values_of_float_load() : narrow ? 8 : 32; }
  uint32_t step_values() const { return 32 * values_per_lane(); }
  uint32_t lanes_per_block() const { return blocks ? blocks->values / values_per_lane() : 1; }
  uint32_t block_values() const { return blocks ? blocks->values : values_of_float_load(); }
  uint32_t block_bytes() const { return blocks ? blocks->bytes : load_bytes; }
  uint32_t step_bytes() const { return 32 / lanes_per_block() * block_bytes(); }

  // For a lane of the warp: where its block begins, and where in the block its (first) run of values does.
  struct Place {
    ptx::U32 index;  // of the lane
    Lane lane;       // for block formats
    ptx::U32 block;  // of those the warp has in work
    ptx::U32 first;
  };
  Place place(ptx::Code& k) const;

  // What a lane reads of the block at `at`. Weights are read once and bypass L1, which is left to x, unless blocks are
  // so unaligned that several accesses share a sector.
  Raw load(ptx::Code& k, ptx::Global<uint8_t> at, const Place& place) const;

 private:
  std::vector<ptx::U32> load_head(ptx::Code& k, ptx::Global<uint8_t> at, const Place& place, ptx::Access how) const;
};

// The activations of a gemv: where a lane's values are, for f32 in global or shared memory and for q8_1. Only the
// address in the first column is kept: that of column c is one instruction away, while pointers to eight columns would
// take half of the registers.
// The distance from a column to the next: known at build time, or an argument.
struct GemvStride {
  uint32_t known = 0;
  ptx::U32 given{};  // the argument; empty: known at build time

  template <class T, ptx::Space S>
  ptx::Ptr<T, S> column(ptx::Ptr<T, S> first, uint32_t c) const {
    if (c == 0) return first;
    if (!given.rec) return first.offset(int64_t(c) * known);
    if constexpr (sizeof(typename ptx::Ptr<T, S>::Address) == 8)
      return {mad_wide(given, uint32_t(sizeof(T)) * c, first.base), first.bytes};
    else
      return {mad(given, uint32_t(sizeof(T)) * c, first.base), first.bytes};
  }
};

// a where p holds, else b.
template <class T, ptx::Space S>
ptx::Ptr<T, S> choose(ptx::Pred p, ptx::Ptr<T, S> a, ptx::Ptr<T, S> b) {
  return {select(p, a.address(), b.address())};
}

// f32. In shared memory each 32 floats are followed by 4 of padding, so that lanes with runs 16 or 32 values apart do
// not conflict in the same banks.
template <ptx::Space S>
struct GemvFloats {
  ptx::Ptr<float, S> first;
  GemvStride stride;
  bool padded = false;

  // Where value v is. A constant v must be a multiple of 32, or stay within the same 32 values.
  uint32_t spread(uint32_t v) const { return padded ? v / 32 * 36 + v % 32 : v; }
  ptx::U32 spread(ptx::U32 v) const { return padded ? v + (v >> 5u) * 4u : v; }

  GemvFloats at(ptx::U32 value) const { return {first + spread(value), stride, padded}; }
  GemvFloats or_else(ptx::Pred here, const GemvFloats& other) const {
    return {choose(here, first, other.first), stride, padded};
  }
  ptx::Ptr<float, S> column(uint32_t c) const { return stride.column(first, c); }
  // n neighbours of column c, from `value` on.
  std::vector<ptx::F32> load(uint32_t c, uint32_t value, uint32_t n) const {
    auto from = column(c).offset(spread(value));
    if (n == 1) return {ptx::load(from)};
    std::vector<ptx::F32> v;
    if (n == 2)
      for (auto f : ptx::load_vec<2>(from)) v.push_back(f);
    for (uint32_t i = 0; i + 4 <= n; i += 4)
      for (auto f : ptx::load_vec<4>(from.offset(i))) v.push_back(f);
    return v;
  }
};

// q8_1: the int8 and the pairs {d, s} are planes of their own.
struct GemvQ8 {
  ptx::Global<uint8_t> quants, pairs;
  GemvStride stride;  // bytes

  GemvQ8 at(ptx::U32 value) const { return {quants + value, pairs + (value >> 5u) * 4u, stride}; }
  GemvQ8 or_else(ptx::Pred here, const GemvQ8& other) const {
    return {choose(here, quants, other.quants), choose(here, pairs, other.pairs), stride};
  }
  // One word, or four where they are 16-byte aligned.
  std::vector<ptx::U32> load(uint32_t c, uint32_t value, uint32_t words) const {
    return load_words(stride.column(quants, c).offset(value), words, 4 * words, {});
  }
  struct Pair {
    ptx::F32 d, s;
  };
  Pair pair(uint32_t c, uint32_t value) const {
    ptx::U32 word = ptx::load(stride.column(pairs, c).offset(value / 32 * 4).as<uint32_t>());
    return {low_f16(word), high_f16(word)};
  }
};

// Running sums of `rows` rows for `columns` columns.
struct GemvSums {
  GemvSums(ptx::Code& k, uint32_t row_count, uint32_t column_count) : code(k), rows(row_count), columns(column_count) {
    for (uint32_t i = 0; i < rows * columns; ++i) sums.push_back(k.var(0.0f));
  }
  ptx::Var<float>& at(uint32_t row, uint32_t column) { return sums[row * columns + column]; }
  // Called after each column. Left alone, the assembler hoists the loads of all columns and runs out of registers (255,
  // with spills, for 8 columns of 2 rows). No load crosses this call, so that two columns are in flight at a time.
  void column_done(uint32_t c) {
    if (columns > 2 && c % 2 == 1) code.warp_sync();
  }

  ptx::Code& code;
  uint32_t rows, columns;
  std::vector<ptx::Var<float>> sums;
};

// `weights`: one Raw per row. `value`: where the step is in x, from the lane's place. `active`: null, or false for
// lanes past the end, which read valid weights but must not count them.
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvFloats<ptx::Space::global>& x, uint32_t value,
                  const ptx::Pred* active);
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvFloats<ptx::Space::shared>& x, uint32_t value,
                  const ptx::Pred* active);
void add_products(GemvSums& sums, const GemvWeights& format, const GemvWeights::Place& place,
                  const std::vector<Raw>& weights, const GemvQ8& x, uint32_t value, const ptx::Pred* active);

}  // namespace heddle::kernels

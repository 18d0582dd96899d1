// The activations of a gemv: where a lane's values are, for f32 in global or shared memory and for q8_1. Only the place
// in the first column is kept; that of column c is one instruction away, where pointers to eight columns would take
// half of the registers.
#pragma once
#include "kernels/format/words.h"
#include "kernels/product/gemv_weights.h"
#include "quant/q8_1.h"

namespace heddle::kernels {

// From a column to the next: known while building, or an argument.
struct GemvStride {
  uint32_t known = 0;
  ptx::U32 given{};  // empty: known

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

// f32. In shared memory 4 floats are left free after each 32, so that lanes whose runs are 16 or 32 values apart do not
// all meet in the same banks.
template <ptx::Space S>
struct GemvFloats {
  ptx::Ptr<float, S> first;
  GemvStride stride;
  bool padded = false;

  // Where value v is; for constants v: a multiple of 32, or less than 32 with nothing carried into the next 32.
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

}  // namespace heddle::kernels

// The activations of a gemv: pointers to where a lane's values are in each column, for f32 in global or shared memory
// and for q8_1.
#pragma once
#include "kernels/format/words.h"
#include "kernels/gemv_weights.h"
#include "quant/q8_1.h"

namespace heddle::kernels {

// f32. In shared memory 4 floats are left free after each 32, so that lanes whose runs are 16 or 32 values apart do not
// all meet in the same banks.
template <ptx::Space S>
struct GemvFloats {
  std::vector<ptx::Ptr<float, S>> columns;
  bool padded;

  // Where value v is; for constants v: a multiple of 32, or less than 32 with nothing carried into the next 32.
  uint32_t spread(uint32_t v) const { return padded ? v / 32 * 36 + v % 32 : v; }
  ptx::U32 spread(ptx::U32 v) const { return padded ? v + (v >> 5u) * 4u : v; }

  GemvFloats at(ptx::U32 value) const {
    GemvFloats moved{{}, padded};
    for (auto& c : columns) moved.columns.push_back(c + spread(value));
    return moved;
  }
  // n neighbours of column c, from `value` on.
  std::vector<ptx::F32> load(uint32_t c, uint32_t value, uint32_t n) const {
    auto from = columns[c].offset(spread(value));
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
  std::vector<ptx::Global<uint8_t>> quants, pairs;

  GemvQ8 at(ptx::U32 value) const {
    GemvQ8 moved;
    for (auto& p : quants) moved.quants.push_back(p + value);
    for (auto& p : pairs) moved.pairs.push_back(p + (value >> 5u) * 4u);
    return moved;
  }
  // One word, or four where they are 16-byte aligned.
  std::vector<ptx::U32> load(uint32_t c, uint32_t value, uint32_t words) const {
    return load_words(quants[c].offset(value), words, 4 * words, {});
  }
  struct Pair {
    ptx::F32 d, s;
  };
  Pair pair(uint32_t c, uint32_t value) const {
    ptx::U32 word = ptx::load(pairs[c].offset(value / 32 * 4).as<uint32_t>());
    return {low_f16(word), high_f16(word)};
  }
};

// a where p holds, else b: of two places in the same columns.
template <class T, ptx::Space S>
ptx::Ptr<T, S> choose(ptx::Pred p, ptx::Ptr<T, S> a, ptx::Ptr<T, S> b) {
  return {select(p, a.address(), b.address())};
}
template <ptx::Space S>
GemvFloats<S> choose(ptx::Pred p, const GemvFloats<S>& a, const GemvFloats<S>& b) {
  GemvFloats<S> r{{}, a.padded};
  for (size_t c = 0; c < a.columns.size(); ++c) r.columns.push_back(choose(p, a.columns[c], b.columns[c]));
  return r;
}
inline GemvQ8 choose(ptx::Pred p, const GemvQ8& a, const GemvQ8& b) {
  GemvQ8 r;
  for (size_t c = 0; c < a.quants.size(); ++c) {
    r.quants.push_back(choose(p, a.quants[c], b.quants[c]));
    r.pairs.push_back(choose(p, a.pairs[c], b.pairs[c]));
  }
  return r;
}

}  // namespace heddle::kernels

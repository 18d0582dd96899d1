// A value and its index as one number, whose maximum is the first of the largest values.
#pragma once
#include <limits>

#include "kernels/spec/reduce.h"

namespace heddle::kernels {

// -infinity is 0, below all others; NaN and +infinity are above all. -0 counts as +0.
inline ptx::U64 argmax_key(ptx::F32 v, ptx::U32 index) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  ptx::U64 key = ptx::pack<uint64_t>(~index, ordered_bits(v + 0.0f));
  key = select(v > -infinity, key, uint64_t(0));
  return select(v < infinity, key, uint64_t(~0u) << 32);
}
// ~0 if the maximum is not a number that can be picked.
inline ptx::U32 argmax_index(ptx::U64 key) { return ~to<uint32_t>(key); }
inline ptx::F32 argmax_value(ptx::U64 key) { return float_of_ordered(ptx::unpack<uint32_t>(key)[1]); }

}  // namespace heddle::kernels

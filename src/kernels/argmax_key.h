// A value and its index as one number, whose maximum is the first of the largest values.
#pragma once
#include "kernels/reduce.h"

namespace heddle::kernels {

// NaN is 0, below all others. -0 counts as +0.
inline ptx::U64 argmax_key(ptx::F32 v, ptx::U32 index) {
  ptx::U64 key = ptx::pack<uint64_t>(~index, ordered_bits(v + 0.0f));
  return select(v == v, key, uint64_t(0));
}
inline ptx::U32 argmax_index(ptx::U64 key) { return select(key != uint64_t(0), ~to<uint32_t>(key), 0u); }

}  // namespace heddle::kernels

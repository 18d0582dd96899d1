// Reductions over a warp or block, beyond the sums and maxima of ptx/warp.h: 64-bit maxima and running sums, and
// floats as integers of the same order.
#pragma once
#include <limits>

#include "kernels/spec/functions.h"
#include "ptx/warp.h"

namespace heddle::kernels {

// Unsigned integers in the order of the floats: -infinity is 0x007fffff, -0 lies just below +0.
inline ptx::U32 ordered_bits(ptx::F32 v) {
  ptx::U32 bits = bitcast<uint32_t>(v);
  return bits ^ (bitcast<uint32_t>(bitcast<int32_t>(bits) >> 31) | 0x80000000u);
}
inline ptx::F32 float_of_ordered(ptx::U32 ordered) {
  ptx::U32 flipped = ~bitcast<uint32_t>(bitcast<int32_t>(ordered) >> 31);
  return bitcast<float>(ordered ^ (flipped | 0x80000000u));
}

inline ptx::U64 shuffle_xor(ptx::U64 v, uint32_t mask, ptx::Loc l = ptx::Loc::current()) {
  auto [lo, hi] = ptx::unpack<uint32_t>(v, l);
  return ptx::pack<uint64_t>(ptx::shuffle_xor(lo, ptx::Arg(mask, l)), ptx::shuffle_xor(hi, ptx::Arg(mask, l)));
}
inline ptx::U64 shuffle(ptx::U64 v, ptx::U32 from, ptx::Loc l = ptx::Loc::current()) {
  auto [lo, hi] = ptx::unpack<uint32_t>(v, l);
  return ptx::pack<uint64_t>(ptx::shuffle(lo, ptx::Arg(from, l)), ptx::shuffle(hi, ptx::Arg(from, l)));
}
inline ptx::U64 shuffle_up(ptx::U64 v, uint32_t by, ptx::Loc l = ptx::Loc::current()) {
  auto [lo, hi] = ptx::unpack<uint32_t>(v, l);
  return ptx::pack<uint64_t>(ptx::shuffle_up(lo, ptx::Arg(by, l)), ptx::shuffle_up(hi, ptx::Arg(by, l)));
}

// Every lane gets the result.
inline ptx::U64 warp_sum(ptx::U64 v) {
  for (uint32_t mask = 16; mask; mask /= 2) v = v + shuffle_xor(v, mask);
  return v;
}
inline ptx::U64 warp_max(ptx::U64 v) {
  for (uint32_t mask = 16; mask; mask /= 2) v = max(v, shuffle_xor(v, mask));
  return v;
}
// The sum of the lanes up to and including this one.
inline ptx::U64 warp_scan(ptx::Code& k, ptx::U64 v) {
  for (uint32_t by = 1; by < 32; by *= 2) {
    ptx::U64 below = shuffle_up(v, by);
    v = select(k.lane() >= by, v + below, v);
  }
  return v;
}

namespace detail {
// Sends one value of each warp, that of lane `from`, to all warps: lane w gets the value of warp w, or 0. One barrier.
inline ptx::U64 exchange(ptx::Code& k, ptx::U64 v, uint32_t from) {
  auto partial = k.shared<uint64_t>(k.warps());
  k.when(k.lane() == from, [&] { store(partial + k.warp(), v); });
  k.barrier();
  auto of_warp = k.var(uint64_t(0));
  k.when(k.lane() < k.warps(), [&] { of_warp = load(partial + k.lane()); });
  return of_warp.get();
}
}  // namespace detail

// The largest of the block's values, for every thread. One barrier, as in block_max.
inline ptx::U64 block_max(ptx::Code& k, ptx::U64 v) {
  return k.assume_uniform(warp_max(detail::exchange(k, warp_max(v), 0)));
}

// The sum over all threads before this one, and over all. Integers, so that every order gives the same bits.
struct Scan {
  ptx::U64 before, total;
};
inline Scan block_scan(ptx::Code& k, ptx::U64 v) {
  ptx::U64 sum = warp_scan(k, v);
  ptx::U64 of_warps = warp_scan(k, detail::exchange(k, sum, 31));
  ptx::U32 warp = k.warp();
  ptx::U64 warps_before = shuffle(of_warps, warp - 1u);  // in warp 0 any lane's value, which is not used
  ptx::U64 before = sum - v + select(warp > 0u, warps_before, uint64_t(0));
  return {before, k.assume_uniform(shuffle(of_warps, k.constant(31u)))};
}

// A value and its index as one number, whose maximum is the first of the largest values.
// -infinity is 0, below all others; NaN and +infinity are above all. -0 counts as +0.
inline ptx::U64 argmax_key(ptx::F32 v, ptx::U32 index) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  ptx::U64 key = ptx::pack<uint64_t>(~index, ordered_bits(v + 0.0f));
  key = select(v > -infinity, key, uint64_t(0));
  return select(v < infinity, key, uint64_t(~0u) << 32);
}
// ~0 if the maximum cannot be picked: NaN or an infinity.
inline ptx::U32 argmax_index(ptx::U64 key) { return ~to<uint32_t>(key); }
inline ptx::F32 argmax_value(ptx::U64 key) { return float_of_ordered(ptx::unpack<uint32_t>(key)[1]); }

}  // namespace heddle::kernels

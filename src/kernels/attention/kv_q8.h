// Writing and reading a q8 cache: int8, and an f16 scale for each 32 values of a head. quant/kv_q8.h defines the
// rounding, and the bits are the same.
#pragma once
#include <array>

#include "kernels/spec/field.h"
#include "ptx/convert.h"
#include "ptx/warp.h"

namespace heddle::kernels {

// 32 neighbouring values, one in each lane.
struct KvQ8 {
  ptx::S32 q;      // this lane's value
  ptx::F16 scale;  // of all 32

  explicit KvQ8(ptx::F32 v) {
    using namespace ptx;
    // magnitudes are ordered as their bits are, with NaN above all numbers
    const U32 largest = warp_max(bitcast<uint32_t>(v) & 0x7fffffffu);
    scale = to_f16(bitcast<float>(largest) / 127.0f);
    const F32 wide = to_f32(scale);
    const S32 nearest = to<int32_t>(v / wide, Round::rni);
    q = select(wide != 0.0f, min(max(nearest, -127), 127), 0);
  }
};

// The four int8 in a word times their scale.
inline std::array<ptx::F32, 4> floats_of_bytes(ptx::U32 word, ptx::F32 scale) {
  std::array<ptx::F32, 4> v;
  for (uint32_t i = 0; i < 4; ++i) v[i] = to_f32(bit_field(ptx::bitcast<int32_t>(word), i * 8, 8u)) * scale;
  return v;
}

// The same as halves, without the scale: bytes 0 and 1, bytes 2 and 3.
inline std::array<ptx::F16x2, 2> halves_of_bytes(ptx::U32 word) {
  using namespace ptx;
  // A byte plus 128 becomes the low bits of an f16 between 1024 and 2048, where the last bit is worth 1.
  const U32 above = word ^ 0x80808080u;
  auto two = [&](uint32_t selector) {
    return bitcast<f16x2>(permute_bytes(above, 0x64646464u, selector)) - f16x2{0x64806480};  // 1152
  };
  return {two(0x4140), two(0x4342)};
}

// The same value in both halves.
inline ptx::F16x2 twice(ptx::F16 v) { return ptx::pack<ptx::f16x2>(v, v); }

// The operands of a matrix product from a q8 cache. The order of a head's values does not matter to the sum as long as
// q has the same, so here a lane's four values of a step of 16 are neighbours, one word of the cache:
//   keys: columns 2c, 2c + 1, 2c + 8, 2c + 9 (c = lane % 4) are the values 4c to 4c + 3 of the 16.
// Values are taken 32 at a time, by four products of 8 columns:
//   column n of product j is value 4n + j. A lane's results of the four are 8 neighbours, those from 8c on.
struct KvQ8Operands {
  // The right operand of a product of 16 values: a word of one position (column lane / 4), times its scale.
  static std::array<ptx::U32, 2> keys(ptx::U32 word, ptx::F16x2 scale) {
    const auto two = halves_of_bytes(word);
    return {ptx::bitcast<uint32_t>(two[0] * scale), ptx::bitcast<uint32_t>(two[1] * scale)};
  }
  // Two registers for each of the four products: words of the positions (rows) 2c, 2c + 1, 2c + 8, 2c + 9, and their
  // scales, of two positions each.
  static std::array<std::array<ptx::U32, 2>, 4> values(const std::array<ptx::U32, 4>& words,
                                                       const std::array<ptx::F16x2, 2>& scales) {
    using namespace ptx;
    std::array<std::array<U32, 2>, 4> all;
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t j = 0; j < 4; j += 2) {
        // bytes j of both positions, then bytes j + 1 of both
        const U32 pairs = permute_bytes(words[half * 2], words[half * 2 + 1], j ? 0x7362u : 0x5140u);
        const auto two = halves_of_bytes(pairs);
        for (uint32_t i = 0; i < 2; ++i) all[j + i][half] = bitcast<uint32_t>(two[i] * scales[half]);
      }
    return all;
  }
};

}  // namespace heddle::kernels

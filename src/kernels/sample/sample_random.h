// Random bits for sampling: Philox4x32 with 10 rounds (Salmon et al., 2011), a function of seed and step alone. No
// state, so a draw can be repeated, and rows of a batch do not depend on each other.
#pragma once
#include "ptx/convert.h"

namespace heddle::kernels {

// The first 64 bits of the block with key `seed` and counter `step`.
inline ptx::U64 random_bits(ptx::U64 seed, ptx::U64 step) {
  using namespace ptx;
  auto [key_0, key_1] = unpack<uint32_t>(seed);
  auto [c0, c1] = unpack<uint32_t>(step);
  U32 c2 = c0 ^ c0, c3 = c2;  // the counter's upper half is 0
  for (int round = 0; round < 10; ++round) {
    U32 low_0 = c0 * 0xd2511f53u, high_0 = mul_hi(c0, 0xd2511f53u);
    U32 low_1 = c2 * 0xcd9e8d57u, high_1 = mul_hi(c2, 0xcd9e8d57u);
    c0 = high_1 ^ c1 ^ key_0, c1 = low_1, c2 = high_0 ^ c3 ^ key_1, c3 = low_0;
    key_0 = key_0 + 0x9e3779b9u, key_1 = key_1 + 0xbb67ae85u;
  }
  return pack<uint64_t>(c0, c1);
}

}  // namespace heddle::kernels

// The engine's arithmetic of weights and logarithms (engine/sampling/numbers.h) on the device,
// operation by operation, so that both have the same bits.
#pragma once
#include "ptx/convert.h"

namespace heddle::kernels {

// e^x for x <= 0 in units of 2^-34: up to 2^18 of them add up exactly in 64 bits (and in a double).
inline ptx::U64 weight_of(ptx::F32 x) {
  using ptx::F32;
  F32 inside = max(x, -80.0f);
  F32 shifted = inside * 1.44269504f + 0x1.8p23f;  // the integer part in the low bits
  F32 n = shifted - 0x1.8p23f;
  F32 r = (inside - n * 0.693145752f) - n * 1.42860677e-6f;
  F32 square = r * r;
  F32 upper = (r * (1.f / 5040) + 1.f / 720) * square + (r * (1.f / 120) + 1.f / 24);
  F32 lower = (r * (1.f / 6) + 0.5f) * square + (r + 1.f);
  F32 p = upper * (square * square) + lower;
  F32 weight = p * bitcast<float>((bitcast<uint32_t>(shifted) << 23) + 0x3f800000u);
  F32 in_units = (weight + 0x1p-11f) - 0x1p-11f;  // 2^-34 is the last bit of 2^-11
  return to<uint64_t>(select(weight < 0x1p-11f, in_units, weight) * 0x1p34f, ptx::Round::rzi);
}
constexpr double weight_unit = 0x1p-34;

// The natural logarithm of a number of at least 1.
inline ptx::F64 log_of(ptx::F64 x) {
  using ptx::F64;
  constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  ptx::U64 bits = bitcast<uint64_t>(x);
  ptx::U32 exponent = to<uint32_t>(bits >> 52) - 1022u;
  F64 m = bitcast<double>((bits & 0x000fffffffffffffu) | 0x3fe0000000000000u);  // 0.5 <= m < 1
  ptx::Pred small = m < 0.70710678118654752;
  m = select(small, m * 2.0, m);
  exponent = select(small, exponent - 1u, exponent);
  F64 s = (m - 1.0) / (m + 1.0), square = s * s;
  F64 sum = square * 0.0;
  for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  F64 e = ptx::to<double>(bitcast<int32_t>(exponent));
  return e * ln2_high + (s * 2.0 * sum + e * ln2_low);
}

// Random bits for sampling: Philox4x32 with 10 rounds (Salmon et al., 2011), a function of seed and step alone. No
// state, so a draw can be repeated, and rows of a batch do not depend on each other.
// The first 64 bits of the block with key `seed` and counter `step`.
inline ptx::U64 random_bits(ptx::U64 seed, ptx::U64 step) {
  using namespace ptx;
  auto [key_0, key_1] = unpack<uint32_t>(seed);
  auto [c0, c1] = unpack<uint32_t>(step);
  U32 c2 = c0 ^ c0, c3 = c2;  // the counter's upper half is 0
  for (int round = 0; round < 10; ++round) {
    U32 low_0 = c0 * 0xd2511f53u, high_0 = mul_hi(c0, 0xd2511f53u);
    U32 low_1 = c2 * 0xcd9e8d57u, high_1 = mul_hi(c2, 0xcd9e8d57u);
    c0 = high_1 ^ c1 ^ key_0;
    c1 = low_1;
    c2 = high_0 ^ c3 ^ key_1;
    c3 = low_0;
    key_0 = key_0 + 0x9e3779b9u;
    key_1 = key_1 + 0xbb67ae85u;
  }
  return pack<uint64_t>(c0, c1);
}

}  // namespace heddle::kernels

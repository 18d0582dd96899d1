// Passes over 64 floats, four at a time: vector types of the compiler, because it does not vectorise these by itself.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heddle::engine {

using Floats = float __attribute__((vector_size(16)));
using Bits = uint32_t __attribute__((vector_size(16)));

constexpr size_t block_size = 64;

inline Floats load_floats(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// The compiler's a > b is a vector of masks; its ?: with vectors is not the same in all compilers.
inline Floats select(Bits mask, Floats yes, Floats no) {
  return std::bit_cast<Floats>((mask & std::bit_cast<Bits>(yes)) | (~mask & std::bit_cast<Bits>(no)));
}

// e^x for x <= 0, in units of 2^-34: up to 2^19 of them add up exactly in a double, in any order. Tokens that weigh
// less than half a unit (e^-24 of the most likely one) have weight 0 and are never drawn. Not libm's: that differs in
// the last bit between machines.
inline Floats weights_of(Floats x) {
  const Floats inside = select(Bits(x > -80.f), x, Floats{} - 80.f);
  const Floats shifted = inside * 1.44269504f + 0x1.8p23f;  // the integer part in the low bits
  const Floats n = shifted - 0x1.8p23f;
  const Floats r = (inside - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts; |r| < 0.35
  // the series to r^7, in pairs: half as many operations wait for each other as in Horner's order
  const Floats square = r * r;
  const Floats upper = (r * (1.f / 5040) + 1.f / 720) * square + (r * (1.f / 120) + 1.f / 24);
  const Floats lower = (r * (1.f / 6) + 0.5f) * square + (r + 1.f);
  const Floats p = upper * (square * square) + lower;
  const Floats weight = p * std::bit_cast<Floats>((std::bit_cast<Bits>(shifted) << 23) + 0x3f800000u);
  const Floats in_units = (weight + 0x1p-11f) - 0x1p-11f;  // 2^-34 is the last bit of 2^-11
  return select(Bits(weight < 0x1p-11f), in_units, weight);
}

// The largest of 64.
inline float peak_of_block(const float* x) {
  Floats a = load_floats(x), b = load_floats(x + 4);
  for (size_t i = 8; i < block_size; i += 8) {
    const Floats next_a = load_floats(x + i), next_b = load_floats(x + i + 4);
    a = select(Bits(next_a > a), next_a, a);
    b = select(Bits(next_b > b), next_b, b);
  }
  a = select(Bits(b > a), b, a);
  float peak = a[0];
  for (int lane = 1; lane < 4; ++lane) peak = a[lane] > peak ? a[lane] : peak;
  return peak;
}

// weights[i] = e^(logits[i] - largest) for 64; their sum. Exact: multiples of 2^-16 and what is left below that are
// added apart, and 16 of either in a lane need no more than the 24 bits of a float.
inline double weigh_block(const float* logits, float largest, float* weights) {
  Floats coarse = {}, fine = {};
  for (size_t i = 0; i < block_size; i += 4) {
    const Floats weight = weights_of(load_floats(logits + i) - largest);
    std::memcpy(weights + i, &weight, sizeof weight);
    const Floats rounded = (weight + 0x1p7f) - 0x1p7f;  // 2^-16 is the last bit of 2^7
    coarse += rounded;
    fine += weight - rounded;
  }
  double sum = 0;
  for (int lane = 0; lane < 4; ++lane) sum += double(coarse[lane]) + double(fine[lane]);
  return sum;
}

// Fewer than 64, filled up with -infinity.
inline std::array<float, block_size> filled_up(const float* x, size_t count) {
  std::array<float, block_size> block;
  block.fill(-__builtin_inff());
  std::memcpy(block.data(), x, count * sizeof(float));
  return block;
}

}  // namespace heddle::engine

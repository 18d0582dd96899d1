// Numbers that are the same on every machine: random bits, exponentials, logarithms, and weights whose sums are exact.
// A token must not depend on the last bit of libm's functions, which differs between machines.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

namespace heddle::engine {

// The first 64 bits of the Philox4x32 block (10 rounds; Salmon et al., 2011) with key `seed` and counter (step,
// purpose): the bits that the GPU's sampling kernel draws. Each purpose has bits of its own, so a step that draws does
// not change what others draw.
inline uint64_t random_bits(uint64_t seed, uint64_t step, uint64_t purpose = 0) {
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  uint32_t c[4] = {uint32_t(step), uint32_t(step >> 32), uint32_t(purpose), uint32_t(purpose >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(c[0]) * 0xd2511f53u, b = uint64_t(c[2]) * 0xcd9e8d57u;
    c[0] = uint32_t(b >> 32) ^ c[1] ^ key[0];
    c[1] = uint32_t(b);
    c[2] = uint32_t(a >> 32) ^ c[3] ^ key[1];
    c[3] = uint32_t(a);
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return c[0] | uint64_t(c[1]) << 32;
}

// 0 <= x < 1, a multiple of 2^-53.
inline double uniform(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

// From the system, a new one each time.
inline uint64_t random_seed() {
  std::random_device device;
  const uint64_t high = device();
  return high << 32 | device();
}

// exp, log and power in plain additions and multiplications, to about 1e-15: series, after the argument was reduced by
// powers of two.
inline constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;

inline double exp_of(double x) {
  if (x < -700) return 0;
  if (x > 700) return std::numeric_limits<double>::infinity();
  const double n = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - n * ln2_high) - n * ln2_low;
  double sum = 1;
  for (int i = 14; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, int(n));
}

// Of a positive normal number.
inline double log_of(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // 0.5 <= m < 1
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;  // log m = 2 atanh s, |s| < 0.172
  double sum = 0;
  for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  return exponent * ln2_high + (2 * s * sum + exponent * ln2_low);
}

// Of x >= 0.
inline double power_of(double x, double y) {
  if (y == 0) return 1;
  return x > 0 ? exp_of(y * log_of(x)) : 0;
}

// Passes over 64 floats, four at a time: vector types of the compiler, because it does not vectorise these by itself.
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

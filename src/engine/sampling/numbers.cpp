// Philox, and series after reducing the argument by powers of two.
#include "engine/sampling/numbers.h"

#include <cmath>
#include <limits>
#include <random>

namespace heddle::engine {
namespace {

constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t step, uint64_t purpose) {
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

uint64_t random_seed() {
  std::random_device device;
  const uint64_t high = device();
  return high << 32 | device();
}

double exp_of(double x) {
  if (x < -700) return 0;
  if (x > 700) return std::numeric_limits<double>::infinity();
  const double n = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - n * ln2_high) - n * ln2_low;
  double sum = 1;
  for (int i = 14; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, int(n));
}

double log_of(double x) {
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

double power_of(double x, double y) {
  if (y == 0) return 1;
  return x > 0 ? exp_of(y * log_of(x)) : 0;
}

}  // namespace heddle::engine

// Random Q4_K matrices for kernel tests, with the sums that a kernel's error is measured against.
#pragma once
#include <cmath>
#include <random>
#include <vector>

#include "base/f16.h"
#include "quant/q4_k.h"

namespace heddle::kernels {

// Every bit random but for d and dmin, which are finite, of either sign and of a wide range of sizes.
inline std::vector<uint8_t> random_q4k(std::mt19937& rng, size_t blocks) {
  std::vector<uint8_t> w(blocks * quant::q4_k_bytes);
  for (auto& v : w) v = uint8_t(rng());
  for (size_t b = 0; b < blocks; ++b)
    for (size_t at : {0, 2}) {
      const double sign = rng() & 1 ? -1 : 1;
      const f16 v = to_f16(sign * std::ldexp(1 + double(rng() % 1024) / 1024, -int(rng() % 16)));
      w[b * quant::q4_k_bytes + at] = uint8_t(v.bits);
      w[b * quant::q4_k_bytes + at + 1] = uint8_t(v.bits >> 8);
    }
  return w;
}

struct Dot {
  double sum;        // of the dequantised weights times x
  double magnitude;  // of |scale * nibble| + |min| times |x|: what roundings are relative to
};
inline Dot dot_q4k(const uint8_t* row, const float* x, uint32_t cols) {
  Dot r{};
  for (uint32_t b = 0; b < cols / quant::q4_k_values; ++b) {
    const uint8_t* block = row + b * quant::q4_k_bytes;
    float w[quant::q4_k_values];
    quant::dequantise_q4_k(block, w);
    const double dmin = to_f32(f16{uint16_t(block[2] | block[3] << 8)});
    for (uint32_t i = 0; i < quant::q4_k_values; ++i) {
      const double min = dmin * quant::q4_k_scale(block + 4, i / 32).min;
      r.sum += double(w[i]) * x[b * quant::q4_k_values + i];
      r.magnitude += (std::abs(w[i] + min) + std::abs(min)) * std::abs(x[b * quant::q4_k_values + i]);
    }
  }
  return r;
}

}  // namespace heddle::kernels

// Rows of a cache as the device has them, f16 or q8, all NaN but for those that were put.
#pragma once
#include <cstring>
#include <limits>
#include <vector>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "quant/kv_q8.h"

namespace heddle::proof {

struct KvRows {
  uint32_t size, kv;  // values of a row, kernels::kv_f16 or kv_q8
  std::vector<uint8_t> bytes;
  std::vector<f16> scales;  // q8

  KvRows(size_t rows, uint32_t size_, uint32_t kv_)
      : size(size_), kv(kv_), bytes(rows * size * (kv == kernels::kv_q8 ? 1 : 2), 0x7e) {  // 0x7e7e is a NaN
    const f16 nan = to_f16(std::numeric_limits<float>::quiet_NaN());
    if (kv == kernels::kv_q8) scales.assign(rows * (size / 32), nan);
  }

  // Values become what the cache keeps of them; with `rounded`, what the matrix units are given: that as f16.
  void put(size_t row, float* values, bool rounded = false) {
    if (kv == kernels::kv_q8)
      for (uint32_t b = 0; b < size / 32; ++b) {
        auto* q = reinterpret_cast<int8_t*>(&bytes[row * size + b * 32]);
        const uint16_t scale = quant::encode_kv_q8(values + b * 32, q);
        scales[row * (size / 32) + b] = f16{scale};
        quant::decode_kv_q8(scale, q, values + b * 32);
      }
    for (uint32_t i = 0; i < size; ++i) {
      const f16 half = to_f16(values[i]);
      if (kv == kernels::kv_f16) std::memcpy(&bytes[(row * size + i) * 2], &half, 2);
      if (kv == kernels::kv_f16 || rounded) values[i] = to_f32(half);
    }
  }
};

}  // namespace heddle::proof

// Random values, and weights of any format: encoded, or random bits with a scale that gives them about the same size.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/error.h"
#include "quant/format.h"
#include "quant/half.h"

namespace heddle::test {

// Normally distributed.
inline std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// The offset of the f16 scale in a block, for formats that have one and cannot be encoded.
inline size_t scale_place(quant::Format format) {
  using quant::Format;
  switch (format) {
    case Format::tq1_0:
      return 52;
    case Format::tq2_0:
      return 64;
    default:
      return 0;
  }
}

inline std::vector<uint8_t> random_weights(quant::Format format, const std::vector<float>& values) {
  using quant::Format;
  const size_t size = quant::block_values(format), bytes = quant::block_bytes(format);
  std::vector<uint8_t> blocks(quant::row_bytes(format, values.size()));
  if (quant::can_encode(format)) {
    quant::encode(format, values.data(), values.size(), blocks.data());
    return blocks;
  }
  std::mt19937 generator(5);
  for (uint8_t& byte : blocks) byte = uint8_t(generator());
  std::vector<float> decoded(size);
  const auto set_scale = [&](uint8_t* block, float scale) {
    const uint16_t half = quant::f16_of_f32(scale);
    if (format != Format::iq1_m) return void(std::memcpy(block + scale_place(format), &half, 2));
    for (int i = 0; i < 4; ++i) block[49 + 2 * i] = uint8_t((block[49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4);
  };
  for (size_t b = 0; b < values.size() / size; ++b) {
    uint8_t* block = blocks.data() + b * bytes;
    double wanted = 0, found = 0;
    for (size_t i = 0; i < size; ++i) wanted += double(values[b * size + i]) * values[b * size + i];
    if (format == Format::nvfp4) {  // the table's entries are 5.8 on average, and a scale's byte is 8 log2(scale) + 64
      const double scale = std::sqrt(wanted / double(size)) / 5.8;
      for (int i = 0; i < 4; ++i)
        block[i] = uint8_t(std::clamp(8 * std::log2(scale) + 64 + block[i] % 8 - 4, 1.0, 126.0));
      continue;
    }
    set_scale(block, 1);
    quant::decode(format, block, size, decoded.data());
    for (const float value : decoded) found += double(value) * value;
    set_scale(block, float(std::sqrt(wanted / std::max(found, 1e-9)) * (b % 3 == 1 ? -1 : 1)));
  }
  return blocks;
}

}  // namespace heddle::test

#include "proof/weights.h"

#include "quant/q4_k.h"

namespace heddle::proof {
static float half_at(const uint8_t* p) { return to_f32(f16{uint16_t(p[0] | p[1] << 8)}); }

void Weights::decode_row(uint32_t row, float* out) const {
  for (uint32_t b = 0; b < cols / 256; ++b, out += 256) {
    const uint8_t* p = bytes.data() + (size_t(row) * (cols / 256) + b) * (format == "q4_k" ? 144 : 210);
    if (format == "q4_k") {
      quant::dequantise_q4_k(p, out);
      continue;
    }
    const float d = half_at(p + 208);
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t h = i / 128, j = i % 128, l = j % 32, quarter = j / 32;
      const uint32_t ql = p[h * 64 + l + (quarter % 2) * 32], qh = p[128 + h * 32 + l];
      const int q = int((quarter / 2 ? ql >> 4 : ql & 15) | (qh >> (2 * quarter) & 3) << 4) - 32;
      out[i] = d * float(int8_t(p[192 + i / 16])) * float(q);
    }
  }
}

Weights random_weights(Random& random, const std::string& format, uint32_t rows, uint32_t cols) {
  const uint32_t block = format == "q4_k" ? 144 : 210;
  Weights w{format, rows, cols, random.bytes(size_t(rows) * (cols / 256) * block)};
  for (size_t at = 0; at < w.bytes.size(); at += block)
    for (uint32_t field : format == "q4_k" ? std::vector<uint32_t>{0, 2} : std::vector<uint32_t>{208}) {
      const f16 v = to_f16(double(random.uniform(0.5f, 1.5f)) / (64 * std::sqrt(double(cols))));
      std::memcpy(&w.bytes[at + field], &v.bits, 2);
    }
  return w;
}

}  // namespace heddle::proof

// Formats without blocks: floats and integers, little-endian. What is no f32 already is rounded to the nearest one.
#include "quant/blocks.h"

namespace heddle::quant {
void decode_f32(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f32_at(blocks + 4 * i);
}
void decode_f16(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = f16_at(blocks + 2 * i);
}
void decode_bf16(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = to_f32(bf16{u16_at(blocks + 2 * i)});
}
void decode_f64(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(std::bit_cast<double>(u64_at(blocks + 8 * i)));
}
void decode_i8(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int8_t(blocks[i]));
}
void decode_i16(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int16_t(u16_at(blocks + 2 * i)));
}
void decode_i32(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int32_t(u32_at(blocks + 4 * i)));
}
void decode_i64(const uint8_t* blocks, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = float(int64_t(u64_at(blocks + 8 * i)));
}

}  // namespace heddle::quant

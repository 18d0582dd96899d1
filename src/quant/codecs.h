// Runs of blocks of each format to f32 and back: the functions behind decode and encode of quant/format.h.
#pragma once
#include <cstddef>

#include "base/f16.h"
#include "quant/half.h"

namespace heddle::quant {

inline uint16_t u16_at(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }
inline uint32_t u32_at(const uint8_t* p) { return u16_at(p) | uint32_t(u16_at(p + 2)) << 16; }
inline uint64_t u64_at(const uint8_t* p) { return u32_at(p) | uint64_t(u32_at(p + 4)) << 32; }
inline float f16_at(const uint8_t* p) { return f32_of_f16(u16_at(p)); }
inline float f32_at(const uint8_t* p) { return std::bit_cast<float>(u32_at(p)); }

// f(block, its values) for each block of a run.
template <size_t bytes, size_t values>
void each_block(const uint8_t* blocks, size_t count, float* out, auto&& f) {
  for (size_t i = 0; i < count; ++i) f(blocks + i * bytes, out + i * values);
}

using Decode = void(const uint8_t* blocks, size_t count, float* out);
// decode_blocks.cpp: numbers,
Decode decode_f32, decode_f16, decode_bf16, decode_f64, decode_i8, decode_i16, decode_i32, decode_i64;
// blocks of 32 values,
Decode decode_q4_0, decode_q4_1, decode_q5_0, decode_q5_1, decode_q8_0, decode_q8_1_blocks;
// nibbles that name an entry of a table,
Decode decode_iq4_nl, decode_iq4_xs, decode_mxfp4, decode_nvfp4;
// and one scale with quants of one or two bits, or of three states
Decode decode_tq1_0, decode_tq2_0, decode_q1_0, decode_q2_0;
// decode_super_blocks.cpp: 256 values
Decode decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k, decode_q8_k;
// decode_grids.cpp: numbers that name an entry of a codebook, four or eight values at once
Decode decode_iq1_s, decode_iq1_m, decode_iq2_xxs, decode_iq2_xs, decode_iq2_s, decode_iq3_xxs, decode_iq3_s;

inline void put_u16(uint8_t* to, uint32_t v) {
  to[0] = uint8_t(v);
  to[1] = uint8_t(v >> 8);
}
inline void put_u32(uint8_t* to, uint32_t v) {
  put_u16(to, v);
  put_u16(to + 2, v >> 16);
}
inline void put_f16(uint8_t* to, float v) { put_u16(to, f16_of_f32(v)); }

// f(values, their block) for each block of a run.
template <size_t values, size_t bytes>
void each_group(const float* in, size_t count, uint8_t* blocks, auto&& f) {
  for (size_t i = 0; i < count; ++i) f(in + i * values, blocks + i * bytes);
}

// All values are finite; `count` is that of blocks.
using Encode = void(const float* values, size_t count, uint8_t* blocks);
// encode_blocks.cpp
Encode encode_f32, encode_f16, encode_bf16;
Encode encode_q4_0, encode_q4_1, encode_q5_0, encode_q5_1, encode_q8_0, encode_q8_1_blocks;
Encode encode_iq4_nl, encode_iq4_xs, encode_mxfp4;
// encode_super_blocks.cpp
Encode encode_q2_k, encode_q3_k, encode_q4_k, encode_q5_k, encode_q6_k, encode_q8_k;

}  // namespace heddle::quant

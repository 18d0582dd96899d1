// Runs of blocks of each format to f32: what quant/format.h's decode calls, family by family.
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
// numbers.cpp: a block is one value
Decode decode_f32, decode_f16, decode_bf16, decode_f64, decode_i8, decode_i16, decode_i32, decode_i64;
// blocks_of_32.cpp
Decode decode_q4_0, decode_q4_1, decode_q5_0, decode_q5_1, decode_q8_0, decode_q8_1_blocks;
// super_blocks.cpp: 256 values
Decode decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k, decode_q8_k;
// tables.cpp: nibbles that name an entry of a table
Decode decode_iq4_nl, decode_iq4_xs, decode_mxfp4, decode_nvfp4;
// grids.cpp: numbers that name an entry of a codebook, four or eight values at once
Decode decode_iq1_s, decode_iq1_m, decode_iq2_xxs, decode_iq2_xs, decode_iq2_s, decode_iq3_xxs, decode_iq3_s;
// few_bits.cpp: one scale and quants of one or two bits, or of three states
Decode decode_tq1_0, decode_tq2_0, decode_q1_0, decode_q2_0;

}  // namespace heddle::quant

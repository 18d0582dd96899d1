// One block of each format to f32: what quant/format.h's decode calls, family by family.
#pragma once
#include "base/f16.h"

namespace heddle::quant {

inline uint16_t u16_at(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }
inline uint32_t u32_at(const uint8_t* p) { return u16_at(p) | uint32_t(u16_at(p + 2)) << 16; }
inline float f16_at(const uint8_t* p) { return to_f32(f16{u16_at(p)}); }

// floats.cpp: one value
void decode_f32(const uint8_t* block, float* out);
void decode_f16(const uint8_t* block, float* out);
void decode_bf16(const uint8_t* block, float* out);
// blocks_of_32.cpp
void decode_q4_0(const uint8_t* block, float* out);
void decode_q4_1(const uint8_t* block, float* out);
void decode_q5_0(const uint8_t* block, float* out);
void decode_q5_1(const uint8_t* block, float* out);
void decode_q8_0(const uint8_t* block, float* out);
// super_blocks.cpp: 256 values
void decode_q2_k(const uint8_t* block, float* out);
void decode_q3_k(const uint8_t* block, float* out);
void decode_q4_k(const uint8_t* block, float* out);
void decode_q5_k(const uint8_t* block, float* out);
void decode_q6_k(const uint8_t* block, float* out);
// tables.cpp: nibbles that name an entry of a table
void decode_iq4_nl(const uint8_t* block, float* out);
void decode_iq4_xs(const uint8_t* block, float* out);
void decode_mxfp4(const uint8_t* block, float* out);

}  // namespace heddle::quant

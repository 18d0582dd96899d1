// Runs of f32 to blocks of each format: what quant/format.h's encode calls, family by family. All values are finite.
#pragma once
#include <cstddef>

#include "quant/half.h"

namespace heddle::quant {

inline void put_u16(uint8_t* to, uint32_t v) { to[0] = uint8_t(v), to[1] = uint8_t(v >> 8); }
inline void put_u32(uint8_t* to, uint32_t v) { put_u16(to, v), put_u16(to + 2, v >> 16); }
inline void put_f16(uint8_t* to, float v) { put_u16(to, f16_of_f32(v)); }

// f(values, their block) for each block of a run.
template <size_t values, size_t bytes>
void each_group(const float* in, size_t count, uint8_t* blocks, auto&& f) {
  for (size_t i = 0; i < count; ++i) f(in + i * values, blocks + i * bytes);
}

using Encode = void(const float* values, size_t count, uint8_t* blocks);  // count: of blocks
// encode_numbers.cpp
Encode encode_f32, encode_f16, encode_bf16;
// encode_blocks_of_32.cpp
Encode encode_q4_0, encode_q4_1, encode_q5_0, encode_q5_1, encode_q8_0, encode_q8_1_blocks;
// encode_super_blocks.cpp
Encode encode_q2_k, encode_q3_k, encode_q4_k, encode_q5_k, encode_q6_k, encode_q8_k;
// encode_tables.cpp
Encode encode_iq4_nl, encode_iq4_xs, encode_mxfp4;

}  // namespace heddle::quant

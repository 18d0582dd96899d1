// q8_1, the format of activations that meet integer weights: for each 32 values 32 int8, an f16 scale d and an f16 sum
// s = d * (sum of the int8), which the mins of the weights are multiplied with. A row is two planes, so that both can
// be read in wide accesses: `cols` int8, then cols / 32 pairs {d, s}; rows are filled up to a multiple of 16 bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::quant {

inline constexpr uint32_t q8_1_values = 32;
size_t q8_1_row_bytes(size_t cols);  // throws an Error if cols is no multiple of 32

// One row. d = largest magnitude / 127; the int8 are x / d rounded to nearest even with d before it is rounded to f16;
// a block of zeros is all zeros. A value that is not finite makes d not finite and the int8 zeros: every value of the
// block decodes to NaN.
void encode_q8_1(const float* x, size_t cols, uint8_t* row);
// d * int8.
void decode_q8_1(const uint8_t* row, size_t cols, float* out);
// s of block b.
float q8_1_sum(const uint8_t* row, size_t cols, size_t b);

}  // namespace heddle::quant

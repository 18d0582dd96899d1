// Tiles in pairs of rows. A row's blocks have the fields of the file's, with scales and mins as bytes and weights of
// five and six bits moved so that few operations unpack them; a tile has eight rows of them, eight bytes of each in
// turn. Nothing is lost: rows can be restored.
#pragma once
#include <cstdint>

#include "quant/format.h"

namespace heddle::cpu {

// Bytes of a block of one row.
uint32_t pair_block_bytes(quant::Format format);

// `count` rows, up to eight; those that are missing become zeros.
void pack_pair_tile(quant::Format format, const uint8_t* rows, uint64_t row_bytes, uint32_t count, uint64_t blocks,
                    uint8_t* to);
// Row r of a tile, as quant::decode decodes it.
void decode_pair_row(quant::Format format, const uint8_t* tile, uint32_t r, uint64_t blocks, float* out);

}  // namespace heddle::cpu

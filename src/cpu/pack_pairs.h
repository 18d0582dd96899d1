// Blocks of one row as tiles in pairs have them: the fields of the file's block, with scales and mins as bytes and
// weights of five and six bits moved so that few operations unpack them. Nothing is lost: blocks can be restored.
#pragma once
#include <cstdint>

#include "quant/format.h"

namespace heddle::cpu {

// Bytes of a block.
uint32_t pair_block_bytes(quant::Format format);
constexpr uint32_t max_pair_block_bytes = 210;

void to_pair_block(quant::Format format, const uint8_t* block, uint8_t* to);
void from_pair_block(quant::Format format, const uint8_t* from, uint8_t* block);

}  // namespace heddle::cpu

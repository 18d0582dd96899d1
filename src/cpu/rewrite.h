// Blocks whose fields do not begin at bytes, written anew for cpu/pack.cpp.
#pragma once
#include "quant/format.h"

namespace heddle::cpu {

// Bytes of a block that is written anew; 0 for a format that is packed as it is.
uint32_t rewritten_bytes(quant::Format format);
void rewrite(quant::Format format, const uint8_t* block, uint8_t* to);

}  // namespace heddle::cpu

// Words of a weight block from an address that is only as aligned as the format makes it. No access is misaligned, and
// none reaches outside the words but for up to 3 bytes before them (in the aligned word that holds their first byte).
#pragma once
#include "ptx/memory.h"

namespace heddle::kernels {

// n words (1, 2, 4 or 8) at an address that is a multiple of `align` (1, 2, 4, 8 or 16).
std::vector<ptx::U32> load_words(ptx::Global<uint8_t> at, uint32_t n, uint32_t align, ptx::Access how,
                                 ptx::Loc loc = ptx::Loc::current());
// A 16-bit word in a 32-bit register.
ptx::U32 load_half(ptx::Global<uint8_t> at, ptx::Access how, ptx::Loc loc = ptx::Loc::current());

}  // namespace heddle::kernels

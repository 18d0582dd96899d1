// Random numbers that are a function of seed and step alone: Philox4x32 with 10 rounds (Salmon et al., 2011), the
// same bits as the GPU's sampling kernels draw.
#pragma once
#include <cstdint>

namespace heddle::engine {

// The first 64 bits of the block with key `seed` and counter (step, purpose). Each purpose has bits of its own, so
// that a step which draws does not change what others draw.
uint64_t random_bits(uint64_t seed, uint64_t step, uint64_t purpose = 0);

// 0 <= x < 1, a multiple of 2^-53.
inline double uniform(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

uint64_t random_seed();  // from the system, another one each time

}  // namespace heddle::engine

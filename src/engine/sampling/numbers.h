// Numbers that are the same on every machine: random bits, exponentials and logarithms. A token must not depend on the
// last bit of libm's, which differs between machines.
#pragma once
#include <cstdint>

namespace heddle::engine {

// The first 64 bits of the Philox4x32 block (10 rounds; Salmon et al., 2011) with key `seed` and counter (step,
// purpose): the bits that the GPU's sampling kernel draws. Each purpose has bits of its own, so a step that draws does
// not change what others draw.
uint64_t random_bits(uint64_t seed, uint64_t step, uint64_t purpose = 0);

// 0 <= x < 1, a multiple of 2^-53.
inline double uniform(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

uint64_t random_seed();  // from the system, a new one each time

// In plain additions and multiplications, to about 1e-15.
double exp_of(double x);              // 0 below -700, infinity above 700
double log_of(double x);              // of a positive normal number
double power_of(double x, double y);  // of x >= 0

}  // namespace heddle::engine

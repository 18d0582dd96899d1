// Philox, and where a seed comes from if nobody gives one.
#include "engine/sampling/random.h"

#include <random>

namespace heddle::engine {

uint64_t random_bits(uint64_t seed, uint64_t step, uint64_t purpose) {
  uint32_t key[2] = {uint32_t(seed), uint32_t(seed >> 32)};
  uint32_t c[4] = {uint32_t(step), uint32_t(step >> 32), uint32_t(purpose), uint32_t(purpose >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(c[0]) * 0xd2511f53u, b = uint64_t(c[2]) * 0xcd9e8d57u;
    c[0] = uint32_t(b >> 32) ^ c[1] ^ key[0];
    c[1] = uint32_t(b);
    c[2] = uint32_t(a >> 32) ^ c[3] ^ key[1];
    c[3] = uint32_t(a);
    key[0] += 0x9e3779b9u, key[1] += 0xbb67ae85u;
  }
  return c[0] | uint64_t(c[1]) << 32;
}

uint64_t random_seed() {
  std::random_device device;
  const uint64_t high = device();
  return high << 32 | device();
}

}  // namespace heddle::engine

#include "cuda/hash.h"

#include <fmt/format.h>

#include <bit>

namespace heddle::cuda {

namespace {

// Little-endian on every machine, so that a folder can be shared between machines.
uint64_t word(const std::byte* from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t(from[i]) << (8 * i);
  return value;
}

uint64_t finish(uint64_t k) {
  k = (k ^ k >> 33) * 0xff51afd7ed558ccdull;
  k = (k ^ k >> 33) * 0xc4ceb9fe1a85ec53ull;
  return k ^ k >> 33;
}

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 murmur3(std::span<const std::byte> data, uint32_t seed) {
  constexpr uint64_t c1 = 0x87c37b91114253d5ull, c2 = 0x4cf5ad432745937full;
  auto mix1 = [](uint64_t k) { return std::rotl(k * c1, 31) * c2; };
  auto mix2 = [](uint64_t k) { return std::rotl(k * c2, 33) * c1; };
  uint64_t h1 = seed, h2 = seed;
  const size_t blocks = data.size() / 16;
  for (size_t i = 0; i < blocks; ++i) {
    const std::byte* block = data.data() + 16 * i;
    h1 ^= mix1(word(block, 8));
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= mix2(word(block + 8, 8));
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
  }
  const std::byte* tail = data.data() + 16 * blocks;
  const size_t rest = data.size() % 16;
  if (rest > 8) h2 ^= mix2(word(tail + 8, rest - 8));
  if (rest > 0) h1 ^= mix1(word(tail, rest < 8 ? rest : 8));

  h1 ^= data.size(), h2 ^= data.size();
  h1 += h2, h2 += h1;
  h1 = finish(h1), h2 = finish(h2);
  h1 += h2, h2 += h1;
  return {h1, h2};
}

uint64_t fnv1a(std::span<const std::byte> data) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (std::byte b : data) h = (h ^ uint64_t(b)) * 0x100000001b3ull;
  return h;
}

}  // namespace heddle::cuda

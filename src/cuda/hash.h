// Two well-known hashes of bytes, neither against an adversary: MurmurHash3 (x64, 128 bits) and FNV-1a (64 bits).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace heddle::cuda {

struct Hash128 {
  uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  std::string hex() const;  // 32 digits
};

Hash128 murmur3(std::span<const std::byte> data, uint32_t seed = 0);
uint64_t fnv1a(std::span<const std::byte> data);

}  // namespace heddle::cuda

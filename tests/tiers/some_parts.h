// Keys and bytes for tests of stores.
#pragma once
#include <random>
#include <vector>

#include "engine/kv_store.h"

namespace heddle::tiers {

inline engine::KvKey some_key(uint64_t number, model::KvPart part = model::KvPart::block) {
  return {part, engine::TextHash::of("key " + std::to_string(number))};
}

inline std::vector<uint8_t> some_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = uint8_t(random());
  return bytes;
}

// What a part of this key has in tests: any other bytes are wrong.
inline std::vector<uint8_t> bytes_of(const engine::KvKey& key, size_t size) {
  uint64_t seed = 0;
  std::memcpy(&seed, key.text.bytes.data(), sizeof seed);
  return some_bytes(size, seed + uint64_t(key.part));
}

}  // namespace heddle::tiers

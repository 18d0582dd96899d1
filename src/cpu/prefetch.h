// Brings what will be read soon to the second cache.
#pragma once
#include <cstdint>

namespace heddle::cpu {
namespace {  // the files that include it are compiled for different instruction sets

inline __attribute__((always_inline)) void prefetch(const uint8_t* at, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}

}  // namespace
}  // namespace heddle::cpu

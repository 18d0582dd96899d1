// How much shorter tests with random inputs are under the sanitizers, which are ten times slower and find in the first
// inputs what they can find: the values are compared in the other run.
#pragma once
#include <cstdint>

namespace heddle::test {

#ifdef HEDDLE_SANITIZED
inline constexpr uint32_t shorter = 3;
#else
inline constexpr uint32_t shorter = 1;
#endif

}  // namespace heddle::test

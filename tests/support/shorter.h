// How much shorter tests with random inputs are under the sanitizers, which are ten times slower and find in the first
// inputs what they can find: the values are compared in the other run.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/support/sanitized.h"

namespace heddle::test {

inline const uint32_t shorter = sanitized ? 3 : 1;

// All of them, or under the sanitizers every third.
template <class T>
std::vector<T> fewer(const std::vector<T>& all) {
  std::vector<T> some;
  for (size_t i = 0; i < all.size(); i += shorter) some.push_back(all[i]);
  return some;
}

}  // namespace heddle::test

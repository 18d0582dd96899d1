// How near logits are to those that are right.
#pragma once
#include <cstdint>
#include <span>

namespace heddle {

// Over several positions.
struct Closeness {
  uint32_t positions = 0;
  double cosine = 1;      // the least; -2 where a logit is not a number
  double difference = 0;  // the largest, as a share of the range of what is right; infinite where one is not a number

  void add(std::span<const float> right, std::span<const float> found);  // one position's
};

}  // namespace heddle

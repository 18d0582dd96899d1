// Sequences with states, as cases of kernels have them: several lengths in one launch, in any order of rows and slots.
#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "kernels/state/state_run.h"
#include "proof/case.h"

namespace heddle::proof {

// As kernels read them.
inline std::vector<uint32_t> numbers_of(const std::vector<kernels::StateRun>& runs) {
  std::vector<uint32_t> numbers;
  for (const kernels::StateRun& run : runs)
    numbers.insert(numbers.end(), {run.begin, run.count, run.slot, run.first_chunk});
  return numbers;
}

// Sequences of these lengths; every second one is fresh.
struct StateRuns {
  StateRuns(Random& random, const std::vector<uint32_t>& lengths) : slots(uint32_t(lengths.size()) + 2) {
    rows = std::accumulate(lengths.begin(), lengths.end(), 0u);
    order.resize(rows);
    std::iota(order.begin(), order.end(), 0u);
    for (uint32_t i = rows; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    positions.resize(rows);
    std::vector<uint32_t> places(slots);
    std::iota(places.begin(), places.end(), 0u);
    for (uint32_t i = slots; i > 1; --i) std::swap(places[i - 1], places[random.below(i)]);
    uint32_t begin = 0;
    for (uint32_t i = 0; i < lengths.size(); ++i) {
      all.push_back({begin, lengths[i], places[i], 0});
      fresh.push_back(i % 2);
      for (uint32_t e = 0; e < lengths[i]; ++e) positions[order[begin + e]] = e + (i % 2 ? 0 : 5);
      begin += lengths[i];
    }
  }
  std::vector<uint32_t> numbers() const { return numbers_of(all); }

  std::vector<kernels::StateRun> all;
  std::vector<uint32_t> order, positions, fresh;  // fresh: by run
  uint32_t slots, rows = 0;
};

inline std::string lengths_text(const std::vector<uint32_t>& lengths) {
  std::string text;
  for (uint32_t length : lengths) text += (text.empty() ? "" : "+") + std::to_string(length);
  return text;
}

}  // namespace heddle::proof

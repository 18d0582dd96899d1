// A token drawn from each row of logits.
#pragma once
#include <compare>

#include "kernels/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// What a row is sampled with. In device memory, so that a captured graph can be replayed.
struct SampleRow {
  float temperature = 1;  // 0 (or less): the largest logit, the first of equals
  uint32_t top_k = 0;     // 0: all
  float top_p = 1;        // 1 and more: all
  float min_p = 0;        // 0: all
  uint64_t seed = 0, step = 0;
};
struct Sampled {
  uint32_t id;
  float log_probability;  // of the logits as given: without temperature, all tokens counted
};

// The order is: penalties and biases (apply_penalties), temperature, top-k, top-p, min-p.
//   top-k keeps the k largest, top-p of those the fewest largest whose probabilities come to top_p of theirs,
//   min-p of those the ones that are at least min_p times as probable as the largest.
// Sets are cut by value: tokens as probable as the last one kept are kept too. Logits are told apart to 2^-27 of the
// temperature.
// Weights e^((logit - largest) / temperature) are counted in units of 2^-44, and sums of integers are exact: a result
// depends on logits, parameters, seed and step alone, not on the number of threads. A token that weighs less than half
// a unit is never drawn, nor is NaN. Where the largest logit is infinite it is taken, and a row of NaN or -infinity
// gives id 0 with log-probability -infinity.
struct Sample {
  static constexpr std::string_view name = "sample",
                                    summary = "a token per row: temperature, top-k, top-p, min-p, draw",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<uint32_t> out;     // (rows) of Sampled, 8-byte aligned
    ptx::DevicePtr<float> logits;     // (rows, vocab)
    ptx::DevicePtr<uint32_t> params;  // (rows) of SampleRow, 16-byte aligned
    uint32_t rows, vocab;             // 0 < vocab <= threads^2, and at most 2^19
  };
  uint32_t threads = 1024;  // one block per row
  uint32_t vec = 1;         // values per load; vocab must be a multiple of it
  uint32_t chained = 0;
  auto operator<=>(const Sample&) const = default;
  static auto fields() {
    return std::tuple(Field<Sample>{"threads", &Sample::threads, range(32, 1024, 32)},
                      Field<Sample>{"vec", &Sample::vec, one_of({1, 2, 4})},
                      Field<Sample>{"chained", &Sample::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

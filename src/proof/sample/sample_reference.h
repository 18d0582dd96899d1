// What `sample` must pick, as the definition reads: everything sorted, sums of integers.
#pragma once
#include <span>
#include <vector>

#include "kernels/sample/sample.h"

namespace heddle::proof {

struct SampleInput {
  std::span<const float> logits;    // (vocab)
  std::vector<float> allowed = {};  // the same, with -infinity for tokens that a mask forbids; empty: there is no mask
  kernels::SampleRow row;
  std::span<const kernels::TokenBias> biases;  // the row's
  std::span<const uint32_t> text;              // (row.length)
};

struct SampleReference {
  uint32_t id = kernels::no_token;
  double log_probability = 0;  // of the logits as given
};
SampleReference sample_reference(const SampleInput& in);

}  // namespace heddle::proof

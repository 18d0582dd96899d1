// Inputs of the kernels that sample: logits of many kinds, parameters of rows, texts so far, masks.
#pragma once
#include <span>
#include <vector>

#include "kernels/sample/sample.h"
#include "proof/case.h"

namespace heddle::proof {

enum class Logits { normal, equal, few, near, peaked, low, zeros, bad, nothing };
const char* text(Logits l);
std::vector<float> make_logits(Random& random, uint32_t rows, uint32_t vocab, Logits kind);

// Every row has its own logits and the next of these parameters.
std::vector<kernels::SampleRow> all_kinds(Random& random, uint32_t rows);

// What rows share: biases of all, and the texts so far.
struct Past {
  std::vector<kernels::TokenBias> biases{{0, 1000.0f}};  // the entry before the first list belongs to no row
  std::vector<std::vector<uint32_t>> texts;              // (rows)
  uint32_t capacity = 0;
  uint32_t places = 0;
  std::vector<uint32_t> masks;  // (masks, (vocab + 31) / 32)
};
Past make_past(Random& random, std::vector<kernels::SampleRow>& params, uint32_t vocab, uint32_t capacity);
// For two rows of three: few tokens, nearly all, one, or none.
void add_masks(Random& random, std::vector<kernels::SampleRow>& params, uint32_t vocab, Past& past);
// As the masks leave them.
std::vector<float> allowed_logits(std::span<const float> logits, const kernels::SampleRow& row, const Past& past);

}  // namespace heddle::proof

// Weights of integers with a scale and a zero point for each group of columns: w = (q - zero) * scale.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/hf/quantized/packed_files.h"

namespace heddle::formats::hf {

struct Integers {
  uint64_t cols = 0, rows = 0;
  uint64_t group = 0;               // columns that share a scale
  std::vector<uint32_t> groups_of;  // the group of each column, where groups are not columns side by side; else empty
  uint32_t bits = 0;                // 2 to 8
  bool symmetric = false;           // all zero points are 2^(bits - 1)

  // (count, cols) quants from 0 to 2^bits - 1.
  std::function<void(uint64_t first, uint64_t count, uint8_t* to)> quants;
  std::function<float(uint64_t row, uint64_t group)> scale;
  std::function<int(uint64_t row, uint64_t group)> zero;

  uint64_t group_of(uint64_t col) const { return groups_of.empty() ? col / group : groups_of[col]; }
};

// In a format that has the same quants where there is one: q4_0 and q4_1 for up to 4 bits, q8_0 for 8. A block of
// theirs is 32 columns of one group; what does not fit becomes q8_0 from the exact values.
Tensor integer_matrix(std::string name, std::string from, Integers integers);

// group_size of AWQ and GPTQ: 0 for -1, the whole row.
uint64_t read_group_size(Config& config);
std::string group_text(uint64_t group);  // "group 128", or "one group per row" for 0

// Column -> group, of a tensor of that meaning; empty where the groups are columns side by side. An Error if it names a
// group that is not there.
std::vector<uint32_t> column_groups(const Packed& index, uint64_t group, uint64_t groups, const PackedFiles& files);

// Value i of a stream of `bits` each, 32 bits to a word, which is word(n).
template <class Word>
uint32_t bits_at(uint64_t i, uint32_t bits, Word&& word) {
  const uint64_t at = i * bits, n = at / 32, shift = at % 32;
  uint32_t value = word(n) >> shift;
  if (shift + bits > 32) value |= word(n + 1) << (32 - shift);
  return value & ((1u << bits) - 1);
}

}  // namespace heddle::formats::hf

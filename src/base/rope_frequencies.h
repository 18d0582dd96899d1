// The frequencies of rotary position embedding, with every way of stretching them that models use. Computed once, on
// the host, in f64; the kernels only see the resulting table.
#pragma once
#include <cstdint>
#include <vector>

namespace heddle {

struct RopeScaling {
  enum class Kind {
    none,
    linear,  // every frequency / factor
    ntk,     // a larger base: the lowest frequency / factor, the highest as it is
    yarn,    // between `fast` and `slow` turns over the original length a ramp from the frequency to frequency / factor
    llama3,  // wavelengths above original / low_factor are stretched by factor, those below original / high_factor kept
    factors,  // frequency[i] / factors[i]
  } kind = Kind::none;
  double factor = 1;
  uint32_t original_length = 0;            // yarn, llama3: the context the model was trained with
  double fast = 32, slow = 1;              // yarn
  bool whole = true;                       // yarn: the ends of the ramp are rounded outwards to whole pairs
  double low_factor = 1, high_factor = 4;  // llama3
  std::vector<double> factors;             // (rotary_dim / 2)
  // Yarn multiplies sine and cosine: by attention_factor if it is not 0, else by scale(mscale) / scale(mscale_all)
  // where scale(m) = 0.1 m ln(factor) + 1 (1 for m = 0 and for a factor up to 1). Other kinds: by attention_factor if
  // not 0.
  double attention_factor = 0, mscale = 1, mscale_all = 0;
};

struct RopeFrequencies {
  std::vector<double> radians;  // (rotary_dim / 2) per position, highest first
  double magnitude = 1;         // of the rotated values

  // The table the kernel reads: turns per position as a fraction of 2^64. Positions are whole numbers, so whole turns
  // per position can be left out, and a product modulo 2^64 is the angle with no error but that of the table: 2^-53 of
  // a frequency, 2^-33 of a turn at position 2^20.
  std::vector<uint64_t> turns() const;
};
// Throws an Error that says what does not suit: an odd dimension, a factor of 0, a missing length, ...
RopeFrequencies rope_frequencies(uint32_t rotary_dim, double base, const RopeScaling& scaling = {});

}  // namespace heddle

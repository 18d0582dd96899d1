// How many of the streams get a row in the next batch. Kernels compute rows in groups: with one row more than fills
// them, a batch can take as long as with several more, and streams that take turns in smaller batches get more tokens
// each. How long a batch takes is measured by its number of rows; numbers that were not measured for long are tried.
#pragma once
#include <cstdint>
#include <vector>

namespace heddle::engine {

class StreamTurns {
 public:
  uint32_t rows_for(uint32_t streams) const;
  void learn(uint32_t rows, double seconds);  // of a batch with nothing but a row of each of `rows` streams

 private:
  struct Measured {
    double seconds = 0;    // the mean, where the last ones count more
    uint32_t batches = 0;  // of them
    uint64_t last = 0;     // of all batches
  };
  bool is_to_be_measured(uint32_t rows) const;
  double rate(uint32_t rows) const { return rows / by_rows_[rows].seconds; }

  std::vector<Measured> by_rows_;
  uint64_t learnt_ = 0;  // batches
};

}  // namespace heddle::engine

// How long a batch takes on this machine, learnt from those that were computed: so that prompts can be cut to a time.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace heddle::engine {

struct Load {
  uint64_t rows = 0;
  uint64_t context = 0;  // positions that the rows read, all together
  uint64_t depth = 0;    // positions of the sequences they are of, which are in memory once for all its rows

  Load with(uint64_t more, uint64_t position) const {  // so many rows of a sequence, from that position on
    return {rows + more, context + more * position + more * (more + 1) / 2, depth + (more ? position + more : 0)};
  }
};

// Seconds = a + b * rows + c * context + d * depth, by least squares of relative errors, and what that misses at a
// number of rows: kernels go by tiles, and few rows go through others than many. Measurements are kept by size (powers
// of two of rows and of context per row), so that a thousand small batches in a row do not wash out what is known of
// large ones; older ones count less. What batches of about so many rows took above the estimate of late is added.
class Pace {
 public:
  void learn(const Load& load, double seconds);
  double usual(const Load& load) const;   // 0: nothing is known
  double expect(const Load& load) const;  // the same, to be on the safe side
  bool measured() const { return !samples_.empty(); }

  // How many rows of a sequence, from `position` on, can join this load: `most` at most, so that it takes no longer
  // than `seconds`, nor goes far beyond what was ever measured (twice the rows, four times the context). INFINITY: as
  // many as there are.
  uint32_t rows_within(double seconds, const Load& load, uint64_t position, uint32_t most) const;

 private:
  struct Sample {
    uint32_t size;  // which one it is
    double rows, context, depth, seconds;
    uint64_t learnt;  // when, in batches
  };

  struct Knot {
    double rows, seconds;  // of rows alone
  };

  void fit();
  void fit_rows();
  double of_rows(double rows) const;
  double excess(uint64_t rows) const;

  std::vector<Sample> samples_;
  uint64_t learnt_ = 0;
  uint64_t largest_rows_ = 0, largest_context_ = 0;
  std::array<double, 4> by_{};       // a, b, c, d
  std::vector<Knot> knots_;          // ascending in both; a + b * rows lies between them
  std::array<double, 65> excess_{};  // by the power of two of rows: a factor; 0: none of that size was seen
};

}  // namespace heddle::engine

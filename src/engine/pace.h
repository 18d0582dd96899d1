// How long a batch takes on this machine, learnt from those before it: prompts are cut into chunks of a given time.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace heddle::engine {

struct Load {
  uint64_t rows = 0;
  uint64_t context = 0;  // positions that the rows read, all together
  uint64_t depth = 0;    // positions of their sequences, each of which is read from memory once for all its rows

  Load with(uint64_t more, uint64_t position) const {  // `more` rows of a sequence, from `position` on
    return {rows + more, context + more * position + more * (more + 1) / 2, depth + (more ? position + more : 0)};
  }
};

// Seconds = a + b * rows + c * context + d * depth, by least squares of relative errors, with a correction by the
// number of rows: kernels work in tiles, and few rows use other kernels than many. Measurements are kept by size
// (powers of two of rows and of context per row), so that a thousand small batches do not displace what is known of
// large ones; older measurements count less. If recent batches of about this size took longer than estimated, so will
// the next one.
class Pace {
 public:
  void learn(const Load& load, double seconds);
  double usual(const Load& load) const;   // 0: nothing was measured
  double expect(const Load& load) const;  // the same with a margin, as recent batches suggest
  bool measured() const { return !samples_.empty(); }

  // How many rows of a sequence, from `position` on, can be added to this load: up to `limit`, so that it takes no
  // longer than `seconds` and is not far beyond what was ever measured (twice the rows, four times the context). With
  // INFINITY seconds, `limit`.
  uint32_t rows_within(double seconds, const Load& load, uint64_t position, uint32_t limit) const;

 private:
  struct Sample {
    uint32_t size;  // class of rows and context
    double rows, context, depth, seconds;
    uint64_t learnt;  // at which batch
  };

  struct Knot {
    double rows, seconds;  // without context and depth
  };

  void fit();
  void fit_rows();
  double of_rows(double rows) const;
  double excess(uint64_t rows) const;

  std::vector<Sample> samples_;
  uint64_t learnt_ = 0;
  uint64_t largest_rows_ = 0, largest_context_ = 0;
  std::array<double, 4> by_{};       // a, b, c, d
  std::vector<Knot> knots_;          // ascending in both; between them, a + b * rows is interpolated
  std::array<double, 65> excess_{};  // by the power of two of rows: a factor; 0: not measured
};

}  // namespace heddle::engine

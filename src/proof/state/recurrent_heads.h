// Heads with a recurrent state, as cases of kernels have them: random inputs, and what f64 makes of them row by row.
#pragma once
#include "kernels/state/recurrence.h"
#include "proof/state/state_runs.h"

namespace heddle::proof {

struct HeadShape {
  uint32_t heads = 4, key_heads = 2, value = 32;
  uint32_t tiled = 0;
  uint32_t harsh = 0;  // decays from nearly none to e^-200 in a row, keys that are alike, values of any size

  std::string text() const;
};

class RecurrentHeads {
 public:
  RecurrentHeads(Random& random, uint32_t key, uint32_t rule, const HeadShape& shape,
                 const std::vector<uint32_t>& lengths);

  kernels::Recurrence::Args put(Machine& m) const;
  // Results and states with |got - want| <= bound * scale, where the scale is the largest of a row's head, or of the
  // head's state, and the value itself: sums over a state of many keys cancel.
  void compare(Machine& m, Check& check, const kernels::Recurrence::Args& args, double bound) const;
  // The same for kernels that round to f16 on the way. The scale is a bound of the length of a value's state, the sum
  // of what decays have left of all |k| |u v|, for results times |q|: no state is longer, because a delta net's (I -
  // beta k k^T) makes none longer. The largest number that the rows of a chunk and some columns, which have one scale,
  // have together adds 2^-19 of it. And all errors of a head together, as the square root of the sum of squares, are up
  // to `of_all` of its results, and to what those 2^-19 allow.
  void compare_rounded(Machine& m, Check& check, const kernels::Recurrence::Args& args, double bound,
                       double of_all) const;
  static constexpr uint32_t chunk = 64, columns = 16;

  const StateRuns& runs() const { return runs_; }
  uint32_t longest() const;  // run

 private:
  void run_head(const kernels::StateRun& run, bool fresh, uint32_t head);
  // A row of a run, as a head sees it.
  struct Row {
    std::vector<double> k, q;
    double decay, factor;  // of u
    const float* values;
  };
  Row row_of(uint32_t row, uint32_t head) const;
  // The largest of a state's numbers and of |k| |u v| of some rows, for each group of `columns` values.
  std::vector<double> largest(const std::vector<double>& state, std::span<const Row> rows) const;
  uint32_t padded() const { return kernels::Recurrence{.key = key_}.padded_key(); }
  uint32_t values() const { return shape_.heads * shape_.value; }
  uint32_t keys() const { return shape_.key_heads * key_; }
  uint32_t mixed_stride() const { return 2 * keys() + values() + 3; }
  uint32_t steps_stride() const { return shape_.heads + 1; }
  uint64_t slot() const { return uint64_t(values()) * padded() + 8; }

  const uint32_t key_;
  const bool delta_;
  const HeadShape shape_;
  const StateRuns runs_;
  kernels::Recurrence::Args sizes_;  // without addresses
  std::vector<float> states_, mixed_, steps_, betas_, bias_, skip_, rates_;
  std::vector<double> want_, scales_, lengths_, least_;  // (rows, values); least: part of lengths
  std::vector<double> want_states_, state_scales_, state_lengths_;
};

// The heads of Qwen3.6-35B-A3B, as benches have them: sequences of some rows each.
struct BenchedHeads {
  uint32_t sequences, rows;
  static constexpr uint32_t heads = 32, key_heads = 16, size = 128;

  uint32_t all_rows() const { return sequences * rows; }
  uint32_t values() const { return heads * size; }
  uint32_t mixed_stride() const { return 2 * key_heads * size + values(); }
  double bytes() const;  // states read and written, rows read, and results
  std::string text() const { return fmt::format("delta 32 x (128, 128), {} x {} rows", sequences, rows); }

  std::vector<kernels::StateRun> runs() const;
  kernels::Recurrence::Args put(Machine& m, Random& random) const;  // without states
  std::vector<ptx::DevicePtr<float>> put_states(Machine& m, uint32_t copies) const;
};

}  // namespace heddle::proof

// The last inputs of a channel are in registers; a few rows are read before they are needed. The first part of a run's
// rows begins with the state and writes the new one, the others begin with the rows before them.
#include "kernels/state/convolution.h"

#include <optional>

#include "kernels/spec/catalog.h"
#include "kernels/spec/functions.h"
#include "kernels/state/state_run.h"
#include "ptx/memory.h"

namespace heddle::kernels {

using namespace ptx;

namespace {

class ConvolutionWriter {
 public:
  using Args = StateConvolution::Args;
  explicit ConvolutionWriter(const StateConvolution& s) : s_(s), k_(std::string(StateConvolution::name), s.threads) {}

  Kernel write() {
    chain_start(k_, s_.chained);
    channel_ = k_.block_id() * s_.threads + k_.thread();
    const Pred inside = channel_ < k_.arg(&Args::channels);
    chain_wait(k_, s_.chained);  // in blocks without work too: the next kernel relies on all blocks having waited
    k_.when(k_.block_y() < k_.arg(&Args::run_count), [&] {
      const LoadedRun run = load_run(k_, k_.block_y());
      k_.when(inside, [&] { convolve(run); });
    });
    return k_.finish();
  }

 private:
  void convolve(const LoadedRun& run) {
    for (uint32_t i = 0; i < s_.width; ++i)
      weight_.push_back(load(k_.arg(&Args::weight) + (mul_wide(channel_, s_.width) + uint64_t(i)), {.nc = true}));
    if (s_.bias) bias_ = load(k_.arg(&Args::bias) + channel_, {.nc = true});
    const auto state = k_.arg(&Args::state) + (widen(run.slot) * k_.arg(&Args::slot_stride) + widen(channel_));
    const auto at = [&](uint32_t i) { return state + mul_wide(k_.arg(&Args::channels), i); };
    for (uint32_t i = 0; i + 1 < s_.width; ++i) last_.push_back(k_.var(0.0f));
    k_.when(!run.fresh && k_.block_z() == 0u, [&] {
      for (uint32_t i = 0; i + 1 < s_.width; ++i) last_[i] = load(at(i));
    });
    const auto order = k_.arg(&Args::order) + run.begin;
    const auto read_last = [&](U32 end) {
      for (uint32_t i = 0; i + 1 < s_.width; ++i) last_[i] = read(load(order + (end - (s_.width - 1 - i)))).input;
    };
    const U32 parts = k_.arg(&Args::parts), part = k_.block_z();
    const U32 each = max((run.count + (parts - 1u)) / parts, k_.constant(s_.width));  // the rows before a part suffice
    const U32 begin = each * part, end = min(begin + each, run.count);
    k_.when(part != 0u && begin < run.count, [&] { read_last(begin); });
    auto entry = k_.var(begin);
    const auto some = [&](uint32_t count) {
      k_.loop_while([&] { return entry.get() + count <= end; },
                    [&] {
                      std::vector<Row> rows;
                      for (uint32_t i = 0; i < count; ++i) rows.push_back(read(load(order + (entry.get() + i))));
                      for (const Row& row : rows) step(row);
                      entry += count;
                    });
    };
    if (s_.ahead > 1) some(s_.ahead);
    some(1);
    k_.when(part == 0u, [&] {
      k_.when(end < run.count, [&] { read_last(run.count); });
      for (uint32_t i = 0; i + 1 < s_.width; ++i) store(at(i), last_[i].get());
    });
  }

  struct Row {
    U32 number;
    F32 input, gate;
  };
  Row read(U32 row) {
    const auto x = k_.arg(&Args::x) + mul_wide(row, k_.arg(&Args::x_stride));
    if (!s_.gates) return {row, load(x + channel_), {}};
    const U32 channels = k_.arg(&Args::channels);
    return {row, load(x + channel_) * load(x + (channel_ + channels * 2u)), load(x + (channel_ + channels))};
  }
  void step(const Row& row) {
    std::optional<F32> sum;
    const auto add = [&](uint32_t i, F32 v) { sum = sum ? fma(v, weight_[i], *sum) : v * weight_[i]; };
    for (uint32_t i = 0; i + 1 < s_.width; ++i) add(i, last_[i].get());
    add(s_.width - 1, row.input);
    if (s_.bias) sum = *sum + bias_;
    const F32 y = s_.gates ? row.gate * *sum : s_.silu ? activate(act_silu, *sum) : *sum;
    store(k_.arg(&Args::y) + (mul_wide(row.number, k_.arg(&Args::y_stride)) + widen(channel_)), y);
    for (uint32_t i = 0; i + 2 < s_.width; ++i) last_[i] = last_[i + 1].get();
    last_[s_.width - 2] = row.input;
  }

  const StateConvolution& s_;
  Builder<Args> k_;
  U32 channel_;
  std::vector<F32> weight_;
  F32 bias_;
  std::vector<Var<float>> last_;
};

}  // namespace

Kernel StateConvolution::build() const {
  check_fields(*this);
  return ConvolutionWriter(*this).write();
}

Grid StateConvolution::grid(const Args& args) const {
  const uint64_t inputs = uint64_t(args.channels) * (gates ? 3 : 1);
  if (args.channels == 0) throw Error("{}: 0 channels", name);
  if (args.x_stride < inputs || args.y_stride < args.channels)
    throw Error("{}: strides of {} and {}, but {} inputs and {} channels", name, args.x_stride, args.y_stride, inputs,
                args.channels);
  if (args.slot_stride < uint64_t(width - 1) * args.channels)
    throw Error("{}: slots of {} values, but {} channels with {} inputs", name, args.slot_stride, args.channels,
                width - 1);
  if (args.runs.address % 16) throw Error("{}: runs must be 16-byte aligned", name);
  if (args.run_count > 65535) throw Error("{}: {} runs, 65535 at most", name, args.run_count);
  if (args.parts == 0 || args.parts > 65535) throw Error("{}: {} parts, expected 1 to 65535", name, args.parts);
  return {.x = (args.channels + threads - 1) / threads, .y = args.run_count ? args.run_count : 1, .z = args.parts};
}

void add_convolution_kernels(std::vector<Entry>& all) { all.push_back(entry<StateConvolution>()); }

}  // namespace heddle::kernels

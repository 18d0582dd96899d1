// Cases of state_convolution against f64.
#include "kernels/state/convolution.h"
#include "proof/case.h"
#include "proof/state/state_runs.h"

namespace heddle::proof {
namespace {

using kernels::StateConvolution;
using kernels::StateRun;

Case convolution(StateConvolution spec, uint32_t channels, std::vector<uint32_t> lengths, uint32_t parts = 1) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t width = spec.width, inputs = channels * (spec.gates ? 3 : 1), x_stride = inputs + 1;
    const StateRuns runs(random, lengths);
    const uint64_t slot = uint64_t(width - 1) * channels + 5;
    const std::vector<float> x = random.normals(size_t(runs.rows) * x_stride),
                             weight = random.normals(channels * width), bias = random.normals(channels),
                             states = random.normals(runs.slots * slot);
    const StateConvolution::Args args{.y = m.poisoned<float>(size_t(runs.rows) * channels),
                                      .x = m.put(x),
                                      .weight = m.put(weight),
                                      .bias = m.put(bias),
                                      .state = m.put(states),
                                      .runs = m.put(runs.numbers()),
                                      .order = m.put(runs.order),
                                      .positions = m.put(runs.positions),
                                      .slot_stride = slot,
                                      .run_count = uint32_t(runs.all.size()),
                                      .channels = channels,
                                      .x_stride = x_stride,
                                      .y_stride = channels,
                                      .parts = parts};
    m.launch(spec, args);
    std::vector<double> want(size_t(runs.rows) * channels), scales(want.size());
    std::vector<float> want_states = states;
    for (size_t number = 0; number < runs.all.size(); ++number)
      for (uint32_t c = 0; c < channels; ++c) {
        const StateRun& one = runs.all[number];
        const bool fresh = runs.fresh[number];
        std::vector<float> last;
        for (uint32_t i = 0; i + 1 < width; ++i) last.push_back(fresh ? 0 : states[one.slot * slot + i * channels + c]);
        for (uint32_t e = 0; e < one.count; ++e) {
          const uint32_t row = runs.order[one.begin + e];
          const float* in = x.data() + size_t(row) * x_stride;
          last.push_back(spec.gates ? in[c] * in[2 * channels + c] : in[c]);
          double sum = spec.bias ? bias[c] : 0.0, magnitude = std::abs(sum);
          for (uint32_t i = 0; i < width; ++i) {
            const double part = double(last[last.size() - width + i]) * weight[c * width + i];
            sum += part;
            magnitude += std::abs(part);
          }
          const double gate = spec.gates ? in[channels + c] : 1;
          want[size_t(row) * channels + c] = spec.gates ? gate * sum : spec.silu ? sum / (1 + std::exp(-sum)) : sum;
          scales[size_t(row) * channels + c] = std::abs(gate) * magnitude * 1.1;  // the slope of SiLU is up to 1.1
        }
        for (uint32_t i = 0; i + 1 < width; ++i)
          want_states[one.slot * slot + i * channels + c] = last[last.size() - (width - 1) + i];
      }
    check.near("y", m.get(args.y, want.size()), want, scales, (width + 8) * 0x1p-24);
    check.equal("state", m.get(args.state, states.size()), want_states);
  };
  return {"state_convolution",
          fmt::format("{} channels={} rows={} parts={}", field_text(spec), channels, lengths_text(lengths), parts),
          target_of(spec), run};
}

}  // namespace

void add_convolution_cases(Sweep sweep, std::vector<Case>& cases) {
  cases.push_back(convolution({}, 200, {5, 1, 2}));
  if (sweep == Sweep::quick) return;
  for (const uint32_t width : {2u, 3u, 8u}) {
    cases.push_back(convolution({.width = width, .bias = 1, .threads = 32, .ahead = 4}, 33, {11, 1, 4, 3}));
    cases.push_back(convolution({.width = width, .gates = 1, .ahead = 1, .chained = 1}, 70, {2, 5}));
    cases.push_back(convolution({.width = width, .bias = 1, .ahead = 2}, 40, {1, width - 1, width, width + 1, 43}, 5));
    cases.push_back(convolution({.width = width, .gates = 1, .chained = 1}, 33, {64, 2}, 64));
    cases.push_back(convolution({.width = width, .silu = 0}, 40, {3, 1, 9}));
  }
  if (sweep == Sweep::normal) return;
  cases.push_back(convolution({.chained = 1}, 8192, {700, 1, 3}));
  cases.push_back(convolution({.chained = 1}, 8192, {1, 700, 2048}, 64));
}

}  // namespace heddle::proof

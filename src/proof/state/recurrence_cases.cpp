// Cases of recurrence and gated_norm against f64, and the timing of the former.
#include <algorithm>
#include <numeric>

#include "kernels/state/convolution.h"
#include "kernels/state/recurrence.h"
#include "kernels/state/state_run.h"
#include "proof/bench.h"

namespace heddle::proof {
namespace {

using kernels::GatedNorm;
using kernels::Recurrence;
using kernels::StateRun;

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }

struct HeadShape {
  uint32_t heads = 4, key_heads = 2, value = 32;
  uint32_t tiled = 0;
};

// Values as far apart as the largest of their row and head has room for rounding errors: sums over a state of many keys
// cancel.
void add_scales(std::vector<double>& scales, const std::vector<double>& of_head) {
  double largest = 0;
  for (double v : of_head) largest = std::max(largest, std::abs(v));
  for (double v : of_head) scales.push_back(std::abs(v) + largest);
}

Case recurrence(Recurrence spec, HeadShape shape, std::vector<uint32_t> lengths) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const bool delta = spec.rule == kernels::rule_delta;
    const uint32_t heads = shape.heads, value = shape.value, key = spec.key, padded = spec.padded_key();
    const uint32_t keys = shape.key_heads * key, values = heads * value, mixed_stride = 2 * keys + values + 3;
    const StateRuns runs(random, lengths);
    const uint64_t slot = uint64_t(values) * padded + 8;
    std::vector<float> states = random.normals(runs.slots * slot);
    for (uint64_t i = 0; i < states.size(); ++i)  // zeros behind the keys
      if (i % slot < uint64_t(values) * padded && i % slot % padded >= key) states[i] = 0;
    const std::vector<float> mixed = random.normals(size_t(runs.rows) * mixed_stride),
                             steps = random.normals(size_t(runs.rows) * (heads + 1), 3),
                             betas = random.normals(size_t(runs.rows) * (heads + 1)), bias = random.normals(heads),
                             skip = random.normals(heads);
    std::vector<float> rates;
    for (uint32_t h = 0; h < heads; ++h) rates.push_back(-random.uniform(0.01f, 2.0f));
    const Recurrence::Args args{.y = m.poisoned<float>(size_t(runs.rows) * values),
                                .mixed = m.put(mixed),
                                .steps = m.put(steps),
                                .betas = m.put(betas),
                                .step_bias = m.put(bias),
                                .rates = m.put(rates),
                                .skip = m.put(skip),
                                .state = m.put(states),
                                .runs = m.put(runs.numbers()),
                                .order = m.put(runs.order),
                                .positions = m.put(runs.positions),
                                .slot_stride = slot,
                                .run_count = uint32_t(runs.all.size()),
                                .heads = heads,
                                .key_heads = shape.key_heads,
                                .value = value,
                                .tiled = shape.tiled,
                                .queries_at = delta ? 0 : values + keys,
                                .keys_at = delta ? keys : values,
                                .values_at = delta ? 2 * keys : 0,
                                .mixed_stride = mixed_stride,
                                .steps_stride = heads + 1,
                                .y_stride = values,
                                .min_step = 0.001f,
                                .max_step = 4.0f};
    m.launch(spec, args);
    std::vector<double> want(size_t(runs.rows) * values), scales(want.size());
    std::vector<double> want_states(states.begin(), states.end()), state_scales(states.size(), 1e-30);
    for (size_t number = 0; number < runs.all.size(); ++number)
      for (uint32_t h = 0; h < heads; ++h) {
        const StateRun& one = runs.all[number];
        const bool fresh = runs.fresh[number];
        const uint32_t kh = shape.tiled ? h % shape.key_heads : h / (heads / shape.key_heads);
        std::vector<double> state(size_t(value) * key);
        const uint64_t place = one.slot * slot + uint64_t(h) * value * padded;
        for (uint32_t v = 0; v < value && !fresh; ++v)
          for (uint32_t i = 0; i < key; ++i) state[size_t(v) * key + i] = states[place + uint64_t(v) * padded + i];
        for (uint32_t e = 0; e < one.count; ++e) {
          const uint32_t row = runs.order[one.begin + e];
          const float* x = mixed.data() + size_t(row) * mixed_stride;
          std::vector<double> k(x + args.keys_at + kh * key, x + args.keys_at + (kh + 1) * key),
              q(x + args.queries_at + kh * key, x + args.queries_at + (kh + 1) * key);
          const double step = std::clamp(softplus(double(steps[row * (heads + 1) + h]) + bias[h]),
                                         double(args.min_step), double(args.max_step));
          const double decay = std::exp(rates[h] * step);
          const double factor = delta ? sigmoid(betas[row * (heads + 1) + h]) : step;
          const auto divide = [&](std::vector<double>& v, double by) {
            double squares = double(1e-6f);
            for (double each : v) squares += each * each;
            for (double& each : v) each /= std::sqrt(squares) * by;
          };
          if (delta) {
            divide(k, 1);
            divide(q, std::sqrt(double(key)));
          }
          std::vector<double> result(value);
          for (uint32_t v = 0; v < value; ++v) {
            double* s = state.data() + size_t(v) * key;
            const double given = x[args.values_at + h * value + v];
            double old = 0;
            for (uint32_t i = 0; i < key; ++i) old += s[i] * k[i];
            const double u = delta ? factor * (given - decay * old) : factor * given;
            double y = delta ? 0 : skip[h] * given;
            for (uint32_t i = 0; i < key; ++i) {
              s[i] = decay * s[i] + k[i] * u;
              y += s[i] * q[i];
            }
            result[v] = y;
          }
          std::vector<double> of_head;
          add_scales(of_head, result);
          for (uint32_t v = 0; v < value; ++v) {
            want[size_t(row) * values + h * value + v] = result[v];
            scales[size_t(row) * values + h * value + v] = of_head[v];
          }
        }
        std::vector<double> of_state;
        add_scales(of_state, state);
        for (uint32_t v = 0; v < value; ++v)
          for (uint32_t i = 0; i < padded; ++i) {
            want_states[place + uint64_t(v) * padded + i] = i < key ? state[size_t(v) * key + i] : 0;
            state_scales[place + uint64_t(v) * padded + i] = i < key ? of_state[size_t(v) * key + i] : 1e-30;
          }
      }
    const uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
    const double bound = (4 * longest + key + 64) * 0x1p-24;
    check.near("y", m.get(args.y, want.size()), want, scales, bound);
    check.near("state", m.get(args.state, states.size()), want_states, state_scales, bound);
  };
  return {"recurrence",
          fmt::format("{} heads={}/{} value={} tiled={} rows={}", field_text(spec), shape.heads, shape.key_heads,
                      shape.value, shape.tiled, lengths_text(lengths)),
          target_of(spec), run};
}

Case gated_norm(GatedNorm spec, uint32_t rows, uint32_t groups, uint32_t size) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t values = groups * size, stride = values + 2, gate_stride = values + 1;
    const std::vector<float> x = random.normals(size_t(rows) * stride),
                             gate = random.normals(size_t(rows) * gate_stride, 2), weight = random.normals(values);
    const GatedNorm::Args args{.y = m.poisoned<float>(size_t(rows) * stride),
                               .x = m.put(x),
                               .gate = m.put(gate),
                               .weight = m.put(weight),
                               .rows = rows,
                               .groups = groups,
                               .size = size,
                               .stride = stride,
                               .gate_stride = gate_stride,
                               .epsilon = 1e-5f};
    m.launch(spec, args);
    const std::vector<float> got = m.get(args.y, size_t(rows) * stride);
    std::vector<float> inside;
    std::vector<double> want;
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t g = 0; g < groups; ++g) {
        const auto at = [&](uint32_t i) { return size_t(r) * stride + g * size + i; };
        const auto gate_of = [&](uint32_t i) { return silu(gate[size_t(r) * gate_stride + g * size + i]); };
        const auto given = [&](uint32_t i) { return x[at(i)] * (spec.gate_first ? gate_of(i) : 1.0); };
        double squares = 0;
        for (uint32_t i = 0; i < size; ++i) squares += given(i) * given(i);
        const double scale = spec.norm ? 1 / std::sqrt(squares / size + double(1e-5f)) : 1;
        for (uint32_t i = 0; i < size; ++i) {
          inside.push_back(got[at(i)]);
          want.push_back(given(i) * scale * (spec.norm ? weight[g * size + i] : 1.0) *
                         (spec.gate_first ? 1.0 : gate_of(i)));
        }
      }
    check.near_relative("y", inside, want, (size / double(spec.threads) + 40) * 0x1p-24);
    check.that(inside.size() == want.size(), "all values");
  };
  return {"gated_norm", fmt::format("{} rows={} groups={} size={}", field_text(spec), rows, groups, size),
          target_of(spec), run};
}

}  // namespace

void add_recurrence_cases(Sweep sweep, std::vector<Case>& cases) {
  constexpr uint32_t ssd = kernels::rule_ssd, delta = kernels::rule_delta;
  cases.push_back(recurrence({.key = 32}, {}, {5, 1}));
  cases.push_back(recurrence({.key = 16, .rule = ssd}, {}, {3, 2}));
  cases.push_back(gated_norm({}, 3, 4, 128));
  if (sweep == Sweep::quick) return;
  for (const uint32_t key : {1u, 13u, 48u})
    for (const uint32_t rule : {ssd, delta}) {
      cases.push_back(
          recurrence({.key = key, .rule = rule, .tile = 4}, {.heads = 3, .key_heads = 1, .value = 7}, {9, 1, 4}));
      cases.push_back(
          recurrence({.key = key, .rule = rule}, {.heads = 4, .key_heads = 2, .value = 40, .tiled = 1}, {1, 17}));
    }
  cases.push_back(
      recurrence({.key = 128, .tile = 1, .chained = 1}, {.heads = 2, .key_heads = 1, .value = 33}, {1, 1, 1}));
  for (const uint32_t first : {0u, 1u}) {
    cases.push_back(gated_norm({.gate_first = first, .threads = 64}, 2, 3, 100));
    cases.push_back(gated_norm({.norm = 0, .gate_first = first, .chained = 1}, 2, 1, 77));
  }
  cases.push_back(gated_norm({}, 0, 1, 8));
  if (sweep == Sweep::normal) return;
  for (const uint32_t rule : {ssd, delta}) {
    cases.push_back(recurrence({.key = 128, .rule = rule}, {.heads = 32, .key_heads = 16, .value = 128}, {300, 1, 77}));
    cases.push_back(recurrence({.key = 256, .rule = rule}, {.heads = 8, .key_heads = 8, .value = 64}, {65, 2}));
  }
  cases.push_back(gated_norm({.gate_first = 1}, 50, 1, 8192));
}

// The heads of Qwen3.6-35B-A3B: 32 of (128, 128), and 16 key heads. A step of some sequences, and a prompt.
void add_recurrence_benches(std::vector<Bench>& all) {
  for (const auto& [sequences, rows] : {std::pair(1u, 1u), {32u, 1u}, {1u, 2048u}}) {
    const uint32_t heads = 32, size = 128, values = heads * size, keys = 16 * size, stride = 2 * keys + values;
    const uint32_t all_rows = sequences * rows;
    const double state = double(sequences) * values * size * 4,
                 bytes = 2 * state + double(all_rows) * (stride + values) * 4;
    Bench bench{.kernel = "recurrence",
                .shape = fmt::format("delta 32 x (128, 128), {} x {} rows", sequences, rows),
                .lowest_target = "sm_90",
                .bytes = bytes,
                .flops = double(all_rows) * values * size * 8};
    bench.prepare = [=](Machine& m, Random& random) -> Bench::Round {
      const Recurrence spec{.key = size, .rule = kernels::rule_delta, .tile = rows == 1 ? 1u : 16u, .chained = 1};
      std::vector<uint32_t> runs, order(all_rows);
      std::iota(order.begin(), order.end(), 0u);
      for (uint32_t i = 0; i < sequences; ++i) runs.insert(runs.end(), {i * rows, rows, i, 0});
      Recurrence::Args args{.y = m.poisoned<float>(size_t(all_rows) * values),
                            .mixed = m.put(random.normals(size_t(all_rows) * stride)),
                            .steps = m.put(random.normals(size_t(all_rows) * heads)),
                            .betas = m.put(random.normals(size_t(all_rows) * heads)),
                            .step_bias = m.put(random.normals(heads)),
                            .rates = m.put(std::vector<float>(heads, -0.5f)),
                            .skip = m.put(random.normals(heads)),
                            .state = {},
                            .runs = m.put(runs),
                            .order = m.put(order),
                            .positions = m.put(std::vector<uint32_t>(all_rows, 1)),
                            .slot_stride = uint64_t(values) * size,
                            .run_count = sequences,
                            .heads = heads,
                            .key_heads = 16,
                            .value = size,
                            .tiled = 0,
                            .queries_at = 0,
                            .keys_at = keys,
                            .values_at = 2 * keys,
                            .mixed_stride = stride,
                            .steps_stride = heads,
                            .y_stride = values,
                            .min_step = 0,
                            .max_step = INFINITY};
      std::vector<ptx::DevicePtr<float>> states;
      for (uint32_t i = 0; i < copies(bytes); ++i)
        states.push_back(m.put(std::vector<float>(size_t(sequences) * values * size, 0.1f)));
      return [=](Machine& machine, uint32_t round) mutable {
        args.state = states[round % states.size()];
        machine.launch(spec, args);
      };
    };
    all.push_back(std::move(bench));
  }
}

}  // namespace heddle::proof

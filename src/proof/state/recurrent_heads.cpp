#include "proof/state/recurrent_heads.h"

#include <algorithm>

namespace heddle::proof {

namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void add_scales(std::vector<double>& scales, const std::vector<double>& of_head) {
  double largest = 0;
  for (double v : of_head) largest = std::max(largest, std::abs(v));
  for (double v : of_head) scales.push_back(std::abs(v) + largest);
}

double length(std::span<const double> v) {
  double squares = 0;
  for (double each : v) squares += each * each;
  return std::sqrt(squares);
}
void divide(std::vector<double>& v, double by) {
  const double of_v = std::hypot(length(v), std::sqrt(double(kernels::delta_epsilon)));
  for (double& each : v) each /= of_v * by;
}

}  // namespace

std::string HeadShape::text() const {
  return fmt::format("heads={}/{} value={} tiled={}{}", heads, key_heads, value, tiled, harsh ? " harsh" : "");
}

RecurrentHeads::RecurrentHeads(Random& random, uint32_t key, uint32_t rule, const HeadShape& shape,
                               const std::vector<uint32_t>& lengths)
    : key_(key), delta_(rule == kernels::rule_delta), shape_(shape), runs_(random, lengths) {
  const uint32_t heads = shape.heads, rows = runs_.rows;
  states_ = random.normals(runs_.slots * slot());
  for (uint64_t i = 0; i < states_.size(); ++i)  // zeros behind the keys
    if (i % slot() < uint64_t(values()) * padded() && i % slot() % padded() >= key) states_[i] = 0;
  mixed_ = random.normals(size_t(rows) * mixed_stride());
  steps_ = random.normals(size_t(rows) * steps_stride(), shape.harsh ? 6 : 3);
  betas_ = random.normals(size_t(rows) * steps_stride(), shape.harsh ? 4 : 1);
  bias_ = random.normals(heads);
  skip_ = random.normals(heads);
  for (uint32_t h = 0; h < heads; ++h)
    rates_.push_back(shape.harsh ? -std::exp(random.uniform(-14.0f, 2.8f)) : -random.uniform(0.01f, 2.0f));
  sizes_ = {.slot_stride = slot(),
            .run_count = uint32_t(runs_.all.size()),
            .heads = heads,
            .key_heads = shape.key_heads,
            .value = shape.value,
            .tiled = shape.tiled,
            .queries_at = delta_ ? 0 : values() + keys(),
            .keys_at = delta_ ? keys() : values(),
            .values_at = delta_ ? 2 * keys() : 0,
            .mixed_stride = mixed_stride(),
            .steps_stride = steps_stride(),
            .y_stride = values(),
            .min_step = shape.harsh ? 0 : 0.001f,
            .max_step = shape.harsh ? INFINITY : 4.0f};
  if (shape.harsh)  // keys that differ little
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t i = 0; i < keys(); ++i) mixed_[size_t(row) * mixed_stride() + sizes_.keys_at + i] += i % 3 * 2.0f;
  for (uint32_t h = 0; h < heads && shape.harsh; ++h) {
    const float size = std::exp(random.uniform(-20.0f, 20.0f));
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t i = 0; i < shape.value; ++i)
        mixed_[size_t(row) * mixed_stride() + sizes_.values_at + h * shape.value + i] *= size;
  }
  want_.resize(size_t(rows) * values());
  scales_.resize(want_.size());
  want_states_.assign(states_.begin(), states_.end());
  state_scales_.assign(states_.size(), 1e-30);
  lengths_ = least_ = scales_;
  state_lengths_ = state_scales_;
  for (size_t i = 0; i < runs_.all.size(); ++i)
    for (uint32_t h = 0; h < heads; ++h) run_head(runs_.all[i], runs_.fresh[i], h);
}

uint32_t RecurrentHeads::longest() const {
  uint32_t count = 0;
  for (const kernels::StateRun& run : runs_.all) count = std::max(count, run.count);
  return count;
}

kernels::Recurrence::Args RecurrentHeads::put(Machine& m) const {
  kernels::Recurrence::Args args = sizes_;
  args.y = m.poisoned<float>(want_.size());
  args.mixed = m.put(mixed_);
  args.steps = m.put(steps_);
  args.betas = m.put(betas_);
  args.step_bias = m.put(bias_);
  args.rates = m.put(rates_);
  args.skip = m.put(skip_);
  args.state = m.put(states_);
  args.runs = m.put(runs_.numbers());
  args.order = m.put(runs_.order);
  args.positions = m.put(runs_.positions);
  return args;
}

RecurrentHeads::Row RecurrentHeads::row_of(uint32_t row, uint32_t h) const {
  const uint32_t kh = shape_.tiled ? h % shape_.key_heads : h / (shape_.heads / shape_.key_heads);
  const float *x = mixed_.data() + size_t(row) * mixed_stride(), *k = x + sizes_.keys_at + kh * key_,
              *q = x + sizes_.queries_at + kh * key_;
  const double step = std::clamp(softplus(double(steps_[row * steps_stride() + h]) + bias_[h]), double(sizes_.min_step),
                                 double(sizes_.max_step));
  Row made{.k = {k, k + key_},
           .q = {q, q + key_},
           .decay = std::exp(rates_[h] * step),
           .factor = delta_ ? sigmoid(betas_[row * steps_stride() + h]) : step,
           .values = x + sizes_.values_at + h * shape_.value};
  if (delta_) {
    divide(made.k, 1);
    divide(made.q, std::sqrt(double(key_)));
  }
  return made;
}

std::vector<double> RecurrentHeads::largest(const std::vector<double>& state, std::span<const Row> rows) const {
  std::vector<double> all((shape_.value + columns - 1) / columns);
  for (size_t i = 0; i < state.size(); ++i) {
    double& of_group = all[i / key_ / columns];
    of_group = std::max(of_group, std::abs(state[i]));
  }
  for (const Row& row : rows)
    for (uint32_t v = 0; v < shape_.value; ++v)
      all[v / columns] = std::max(all[v / columns], length(row.k) * std::abs(row.factor * row.values[v]));
  return all;
}

void RecurrentHeads::run_head(const kernels::StateRun& run, bool fresh, uint32_t h) {
  const uint32_t value = shape_.value, key = key_;
  std::vector<double> state(size_t(value) * key);
  const uint64_t place = run.slot * slot() + uint64_t(h) * value * padded();
  for (uint32_t v = 0; v < value && !fresh; ++v)
    for (uint32_t i = 0; i < key; ++i) state[size_t(v) * key + i] = states_[place + uint64_t(v) * padded() + i];
  std::vector<double> lengths;  // of each value's state
  // What the chunk, and what decays have left of those before it, add to the scales of a group of columns.
  std::vector<double> least((value + columns - 1) / columns), before(least.size());
  for (uint32_t v = 0; v < value; ++v) lengths.push_back(length(std::span(state).subspan(size_t(v) * key, key)));
  std::vector<Row> rows;
  for (uint32_t e = 0; e < run.count; ++e) rows.push_back(row_of(runs_.order[run.begin + e], h));
  for (uint32_t e = 0; e < run.count; ++e) {
    if (e % chunk == 0) {
      for (size_t i = 0; i < least.size(); ++i) before[i] += least[i];
      least = largest(state, std::span(rows).subspan(e, std::min(chunk, run.count - e)));
      for (double& each : least) each *= 0x1p-19;
    }
    const size_t at = size_t(runs_.order[run.begin + e]) * values() + h * value;
    const Row& row = rows[e];
    for (double& each : before) each *= row.decay;
    std::vector<double> of_head;
    for (uint32_t v = 0; v < value; ++v) {
      double* s = state.data() + size_t(v) * key;
      const double given = row.values[v];
      double old = 0, y = delta_ ? 0 : skip_[h] * given;
      for (uint32_t i = 0; i < key; ++i) old += s[i] * row.k[i];
      const double u = row.factor * (delta_ ? given - row.decay * old : given);
      lengths[v] = row.decay * lengths[v] + length(row.k) * std::abs(row.factor * given);
      least_[at + v] = length(row.q) * (least[v / columns] + before[v / columns]);
      lengths_[at + v] = length(row.q) * lengths[v] + least_[at + v] + std::abs(y);
      for (uint32_t i = 0; i < key; ++i) {
        s[i] = row.decay * s[i] + row.k[i] * u;
        y += s[i] * row.q[i];
      }
      want_[at + v] = y;
    }
    add_scales(of_head, std::vector(want_.begin() + ptrdiff_t(at), want_.begin() + ptrdiff_t(at + value)));
    std::copy(of_head.begin(), of_head.end(), scales_.begin() + ptrdiff_t(at));
  }
  std::vector<double> of_state;
  add_scales(of_state, state);
  for (uint32_t v = 0; v < value; ++v)
    for (uint32_t i = 0; i < padded(); ++i) {
      const uint64_t to = place + uint64_t(v) * padded() + i;
      want_states_[to] = i < key ? state[size_t(v) * key + i] : 0;
      if (i >= key) continue;
      state_scales_[to] = of_state[size_t(v) * key + i];
      state_lengths_[to] = lengths[v] + least[v / columns] + before[v / columns];
    }
}

void RecurrentHeads::compare(Machine& m, Check& check, const kernels::Recurrence::Args& args, double bound) const {
  check.near("y", m.get(args.y, want_.size()), want_, scales_, bound);
  check.near("state", m.get(args.state, states_.size()), want_states_, state_scales_, bound);
}

void RecurrentHeads::compare_rounded(Machine& m, Check& check, const kernels::Recurrence::Args& args, double bound,
                                     double of_all) const {
  const std::vector<float> y = m.get(args.y, want_.size());
  check.near("y", y, want_, lengths_, bound);
  check.near("state", m.get(args.state, states_.size()), want_states_, state_lengths_, bound);
  // by head: values of heads may differ by many orders of magnitude
  for (uint32_t h = 0; h < shape_.heads; ++h) {
    std::vector<double> wanted, errors, least;
    for (size_t i = 0; i < y.size(); ++i)
      if (i % values() / shape_.value == h) {
        wanted.push_back(want_[i]);
        errors.push_back(y[i] - want_[i]);
        least.push_back(least_[i]);
      }
    const double error = length(errors), allowed = of_all * length(wanted) + bound * length(least);
    check.that(error <= allowed, fmt::format("y of head {}: errors of {:.2e}, allowed {:.2e}", h, error, allowed));
  }
}

// --- benches --------------------------------------------------------------------------------------------------------
double BenchedHeads::bytes() const {
  return 2.0 * sequences * values() * size * 4 + double(all_rows()) * (mixed_stride() + values()) * 4;
}

std::vector<kernels::StateRun> BenchedHeads::runs() const {
  std::vector<kernels::StateRun> all;
  for (uint32_t i = 0; i < sequences; ++i) all.push_back({i * rows, rows, i, 0});
  return all;
}

kernels::Recurrence::Args BenchedHeads::put(Machine& m, Random& random) const {
  std::vector<uint32_t> order(all_rows());
  std::iota(order.begin(), order.end(), 0u);
  return {.y = m.poisoned<float>(size_t(all_rows()) * values()),
          .mixed = m.put(random.normals(size_t(all_rows()) * mixed_stride())),
          .steps = m.put(random.normals(size_t(all_rows()) * heads)),
          .betas = m.put(random.normals(size_t(all_rows()) * heads)),
          .step_bias = m.put(random.normals(heads)),
          .rates = m.put(std::vector<float>(heads, -0.5f)),
          .skip = m.put(random.normals(heads)),
          .state = {},
          .runs = m.put(numbers_of(runs())),
          .order = m.put(order),
          .positions = m.put(std::vector<uint32_t>(all_rows(), 1)),
          .slot_stride = uint64_t(values()) * size,
          .run_count = sequences,
          .heads = heads,
          .key_heads = key_heads,
          .value = size,
          .tiled = 0,
          .queries_at = 0,
          .keys_at = key_heads * size,
          .values_at = 2 * key_heads * size,
          .mixed_stride = mixed_stride(),
          .steps_stride = heads,
          .y_stride = values(),
          .min_step = 0,
          .max_step = INFINITY};
}

std::vector<ptx::DevicePtr<float>> BenchedHeads::put_states(Machine& m, uint32_t copies) const {
  std::vector<ptx::DevicePtr<float>> states;
  for (uint32_t i = 0; i < copies; ++i)
    states.push_back(m.put(std::vector<float>(size_t(sequences) * values() * size, 0.1f)));
  return states;
}

}  // namespace heddle::proof

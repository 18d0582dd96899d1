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
  lengths_ = scales_;
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

void RecurrentHeads::run_head(const kernels::StateRun& run, bool fresh, uint32_t h) {
  const uint32_t value = shape_.value, heads = shape_.heads, key = key_;
  const uint32_t kh = shape_.tiled ? h % shape_.key_heads : h / (heads / shape_.key_heads);
  std::vector<double> state(size_t(value) * key);
  const uint64_t place = run.slot * slot() + uint64_t(h) * value * padded();
  for (uint32_t v = 0; v < value && !fresh; ++v)
    for (uint32_t i = 0; i < key; ++i) state[size_t(v) * key + i] = states_[place + uint64_t(v) * padded() + i];
  std::vector<double> lengths;  // of each value's state
  for (uint32_t v = 0; v < value; ++v) lengths.push_back(length(std::span(state).subspan(size_t(v) * key, key)));
  for (uint32_t e = 0; e < run.count; ++e) {
    const uint32_t row = runs_.order[run.begin + e];
    const float* x = mixed_.data() + size_t(row) * mixed_stride();
    std::vector<double> k(x + sizes_.keys_at + kh * key, x + sizes_.keys_at + (kh + 1) * key),
        q(x + sizes_.queries_at + kh * key, x + sizes_.queries_at + (kh + 1) * key);
    const double step = std::clamp(softplus(double(steps_[row * steps_stride() + h]) + bias_[h]),
                                   double(sizes_.min_step), double(sizes_.max_step));
    const double decay = std::exp(rates_[h] * step);
    const double factor = delta_ ? sigmoid(betas_[row * steps_stride() + h]) : step;
    if (delta_) {
      divide(k, 1);
      divide(q, std::sqrt(double(key)));
    }
    std::vector<double> result(value), of_head;
    for (uint32_t v = 0; v < value; ++v) {
      double* s = state.data() + size_t(v) * key;
      const double given = x[sizes_.values_at + h * value + v];
      double old = 0;
      for (uint32_t i = 0; i < key; ++i) old += s[i] * k[i];
      const double u = delta_ ? factor * (given - decay * old) : factor * given;
      result[v] = delta_ ? 0 : skip_[h] * given;
      for (uint32_t i = 0; i < key; ++i) {
        s[i] = decay * s[i] + k[i] * u;
        result[v] += s[i] * q[i];
      }
      lengths[v] = decay * lengths[v] + length(k) * std::abs(factor * given);
      lengths_[size_t(row) * values() + h * value + v] =
          length(q) * lengths[v] + (delta_ ? 0 : std::abs(skip_[h] * given));
    }
    add_scales(of_head, result);
    std::copy(result.begin(), result.end(), want_.begin() + ptrdiff_t(size_t(row) * values() + h * value));
    std::copy(of_head.begin(), of_head.end(), scales_.begin() + ptrdiff_t(size_t(row) * values() + h * value));
  }
  std::vector<double> of_state;
  add_scales(of_state, state);
  for (uint32_t v = 0; v < value; ++v)
    for (uint32_t i = 0; i < padded(); ++i) {
      want_states_[place + uint64_t(v) * padded() + i] = i < key ? state[size_t(v) * key + i] : 0;
      state_scales_[place + uint64_t(v) * padded() + i] = i < key ? of_state[size_t(v) * key + i] : 1e-30;
      state_lengths_[place + uint64_t(v) * padded() + i] = i < key ? lengths[v] : 1e-30;
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
    std::vector<double> wanted, errors;
    for (size_t i = 0; i < y.size(); ++i)
      if (i % values() / shape_.value == h) {
        wanted.push_back(want_[i]);
        errors.push_back(y[i] - want_[i]);
      }
    const double error = length(errors) / length(wanted);
    check.that(error <= of_all, fmt::format("y of head {}: errors of {:.2e} of all, allowed {:.2e}", h, error, of_all));
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

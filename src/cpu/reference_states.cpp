// States are kept in f32, all else between two rows is f64.
#include "cpu/reference_states.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "cpu/reference_math.h"

namespace heddle::cpu {
namespace {

using namespace model;
using namespace reference;

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// The result for the newest input x, which becomes the last of the inputs kept in `state`, (width - 1, channels).
Vector convolved(const Convolution& c, const Vector& x, float* state) {
  const uint64_t channels = c.channels();
  Vector out(channels);
  for (uint64_t i = 0; i < channels; ++i) {
    double sum = c.bias.empty() ? 0 : double(c.bias[i]);
    for (uint32_t t = 0; t + 1 < c.width; ++t) sum += double(c.weight[i * c.width + t]) * state[t * channels + i];
    out[i] = static_cast<float>(sum + double(c.weight[i * c.width + c.width - 1]) * x[i]);
  }
  if (c.width > 1) {
    std::copy(state + channels, state + (c.width - 1) * channels, state);
    std::copy(x.begin(), x.end(), state + (c.width - 2) * channels);
  }
  return out;
}

void divide_by_length(float* x, uint32_t size, double scale) {
  double square = 0;
  for (uint32_t i = 0; i < size; ++i) square += double(x[i]) * x[i];
  const double by = scale / std::sqrt(square + double(delta_epsilon));
  for (uint32_t i = 0; i < size; ++i) x[i] = static_cast<float>(x[i] * by);
}

// One head of one row: the state (key, value) moves on, and `out` gets (value) of it.
void recur_head(const Recurrence& r, uint32_t head, const Vector& mixed, double step, double beta, float* state,
                float* out) {
  const float* q = mixed.data() + r.queries_at() + uint64_t(r.key_head(head)) * r.key;
  const float* k = mixed.data() + r.keys_at() + uint64_t(r.key_head(head)) * r.key;
  const float* v = mixed.data() + r.values_at() + uint64_t(head) * r.value;
  const double decay = std::exp(double(r.rates[head]) * step);
  for (uint32_t j = 0; j < r.value; ++j) {
    double u = step * v[j];
    if (r.rule == Recurrence::Rule::delta) {
      double known = 0;
      for (uint32_t i = 0; i < r.key; ++i) known += double(k[i]) * state[uint64_t(i) * r.value + j];
      u = beta * (v[j] - decay * known);
    }
    double sum = 0;
    for (uint32_t i = 0; i < r.key; ++i) {
      float& s = state[uint64_t(i) * r.value + j];
      s = static_cast<float>(decay * s + k[i] * u);
      sum += double(q[i]) * s;
    }
    if (r.rule == Recurrence::Rule::ssd) sum += double(r.skip[head]) * v[j];
    out[j] = static_cast<float>(sum);
  }
}

void gate_and_normalise(const Recurrence& r, const std::vector<Vector>& gates, std::vector<Vector>& rows,
                        Ranks& ranks) {
  const auto multiply = [&] {
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t c = 0; c < rows[i].size(); ++c) rows[i][c] = static_cast<float>(rows[i][c] * silu(gates[i][c]));
  };
  if (r.gate_first) multiply();
  if (r.gated_norm.across) {
    normalise_across(r.gated_norm, rows, ranks);
  } else if (r.gated_norm.kind != Norm::Kind::none) {
    for (Vector& x : rows)
      for (size_t at = 0; at < x.size(); at += r.norm_size)
        normalise(r.gated_norm, x.data() + at, r.norm_size, r.gated_norm.weight.data() + at, nullptr);
  }
  if (!r.gate_first) multiply();
}

}  // namespace

ReferenceStates::ReferenceStates(const Model& model, const Limits& limits, Ranks& ranks) : ranks_(ranks) {
  uint64_t size = 0;
  for (const Layer& layer : model.layers)
    for (const Sublayer& sublayer : layer.sublayers) {
      std::visit([&](const auto& of) { places_[&of] = {size, state_values(sublayer)}; }, sublayer);
      size += state_values(sublayer);
    }
  if (size) slots_.assign(limits.state_slots, {Vector(size)});
}

void ReferenceStates::begin(const Batch& batch) {
  batch_ = &batch;
  if (slots_.empty() || batch.predicts) return;
  std::set<uint32_t> used;
  for (const uint32_t slot : batch.slots)
    check(slot < slots_.size() && used.insert(slot).second, "a slot of its own for every sequence");
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    uint32_t& next = slots_[batch.slots.at(batch.sequences[i])].position;
    if (batch.positions[i] == 0) next = 0;
    check(batch.positions[i] == next, "a state that continues at the position after its last");
    ++next;
  }
}

float* ReferenceStates::state_of(const void* sublayer, size_t row) {
  const Place place = places_.at(sublayer);
  float* state = slots_[batch_->slots[batch_->sequences[row]]].state.data() + place.first;
  if (batch_->positions[row] == 0) std::fill_n(state, place.size, 0.0f);
  return state;
}

std::vector<Vector> ReferenceStates::recur(const Recurrence& r, const std::vector<Vector>& h) {
  std::vector<Vector> mixed, gates, steps, betas, out;
  products(r.mixed, {}, h, mixed);
  products(r.gate, {}, h, gates);
  products(r.steps, r.step_bias, h, steps);
  if (r.betas) products(r.betas, {}, h, betas);
  std::vector<float*> states;  // of all heads, before each row
  for (size_t row = 0; row < h.size(); ++row) {
    float* state = state_of(&r, row);
    states.push_back(state + state_values(r.convolution));
    Vector& x = mixed[row];
    x = convolved(r.convolution, x, state);
    for (float& value : x) value = static_cast<float>(silu(value));
    if (r.rule == Recurrence::Rule::delta)
      for (uint32_t k = 0; k < r.key_heads; ++k) {
        divide_by_length(x.data() + r.queries_at() + uint64_t(k) * r.key, r.key, 1 / std::sqrt(double(r.key)));
        divide_by_length(x.data() + r.keys_at() + uint64_t(k) * r.key, r.key, 1);
      }
  }
  out.assign(h.size(), Vector(r.values()));
  parallel_for(r.heads, threads_for(3 * h.size() * r.heads * r.key * uint64_t(r.value)), [&](size_t head) {
    for (size_t row = 0; row < h.size(); ++row) {
      const double step = std::clamp(softplus(steps[row][head]), double(r.min_step), double(r.max_step));
      recur_head(r, uint32_t(head), mixed[row], step, r.betas ? sigmoid(betas[row][head]) : 0,
                 states[row] + head * r.key * uint64_t(r.value), out[row].data() + head * r.value);
    }
  });
  gate_and_normalise(r, gates, out, ranks_);
  return out;
}

std::vector<Vector> ReferenceStates::convolve(const ShortConvolution& c, const std::vector<Vector>& h) {
  const uint64_t channels = c.convolution.channels();
  std::vector<Vector> in, out;
  products(c.in, {}, h, in);
  for (size_t row = 0; row < h.size(); ++row) {
    const float *before = in[row].data(), *after = before + channels, *values = after + channels;
    Vector x(channels);
    for (uint64_t i = 0; i < channels; ++i) x[i] = before[i] * values[i];
    x = convolved(c.convolution, x, state_of(&c, row));
    for (uint64_t i = 0; i < channels; ++i) x[i] *= after[i];
    out.push_back(std::move(x));
  }
  return out;
}

std::vector<Vector> ReferenceStates::before(const NextHead& head, const std::vector<Vector>& h) {
  std::vector<Vector> out;
  for (size_t row = 0; row < h.size(); ++row) {
    float* state = state_of(&head, row);
    out.emplace_back(state, state + h[row].size());
    std::copy(h[row].begin(), h[row].end(), state);
  }
  return out;
}

void ReferenceStates::copy(uint32_t from, uint32_t to) {
  check(from < slots_.size() && to < slots_.size(), "slots of states");
  if (from != to) slots_[to] = slots_[from];
}

uint64_t ReferenceStates::slot_bytes() const {
  return places_.empty() || slots_.empty() ? 0 : slots_[0].state.size() * sizeof(float) + sizeof slots_[0].position;
}

void ReferenceStates::read(uint32_t slot, std::span<uint8_t> to) const {
  const auto& [state, position] = slots_.at(slot);
  std::memcpy(to.data(), state.data(), state.size() * sizeof(float));
  std::memcpy(to.data() + state.size() * sizeof(float), &position, sizeof position);
}

void ReferenceStates::write(uint32_t slot, std::span<const uint8_t> from) {
  auto& [state, position] = slots_.at(slot);
  std::memcpy(state.data(), from.data(), state.size() * sizeof(float));
  std::memcpy(&position, from.data() + state.size() * sizeof(float), sizeof position);
}

}  // namespace heddle::cpu

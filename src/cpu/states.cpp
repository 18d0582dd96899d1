#include "cpu/states.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace heddle::cpu {
namespace {

constexpr uint64_t channels_at_once = 256;  // of a convolution: rows of 1 KiB

void divide_head_by_length(float* x, uint32_t size, float scale) {
  double square = 0;
  for (uint32_t i = 0; i < size; ++i) square += double(x[i]) * x[i];
  const float by = static_cast<float>(double(scale) / std::sqrt(square + double(model::delta_epsilon)));
  for (uint32_t i = 0; i < size; ++i) x[i] *= by;
}

}  // namespace

RecurrentStates::RecurrentStates(const Isa& isa, Team& team, Ranks& ranks, const model::Model& model,
                                 const model::Limits& limits)
    : isa_(isa),
      team_(team),
      ranks_(ranks),
      slots_(limits.state_slots),
      of_thread_(team.threads()),
      inputs_of_thread_(team.threads()) {
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers) {
      const auto add = [&](const auto& of) {
        const model::Convolution& c = of.convolution;
        Place& place = places_[&of];
        place.first = slot_values_;
        place.weights.resize(c.weight.size());
        for (uint64_t i = 0; i < c.channels(); ++i)
          for (uint32_t t = 0; t < c.width; ++t) place.weights[t * c.channels() + i] = c.weight[i * c.width + t];
        slot_values_ += model::state_values(sublayer);
      };
      if (const auto* r = std::get_if<model::Recurrence>(&sublayer)) add(*r);
      if (const auto* c = std::get_if<model::ShortConvolution>(&sublayer)) add(*c);
      if (const auto* head = std::get_if<model::NextHead>(&sublayer)) {
        places_[head] = {.first = slot_values_};
        slot_values_ += model::state_values(sublayer);
      }
    }
  if (slot_values_ && slots_) states_ = Pages(uint64_t(slots_) * slot_values_ * sizeof(float));
}

void RecurrentStates::begin(const model::Batch& batch) {
  batch_ = &batch;
  sequences_.clear();
  if (slot_values_ == 0 || batch.predicts) return;
  std::set<uint32_t> used;
  for (const uint32_t slot : batch.slots)
    check(slot < slots_ && used.insert(slot).second, "a slot of its own for every sequence");
  std::map<uint32_t, size_t> found;
  for (uint32_t row = 0; row < batch.tokens.size(); ++row) {
    const auto [place, is_new] = found.emplace(batch.sequences[row], sequences_.size());
    if (is_new) sequences_.push_back({batch.slots.at(batch.sequences[row]), batch.positions[row] == 0, {}});
    sequences_[place->second].rows.push_back(row);
  }
}

float* RecurrentStates::state(const Place& place, const Sequence& sequence) const {
  return reinterpret_cast<float*>(states_.data()) + sequence.slot * slot_values_ + place.first;
}

void RecurrentStates::run_convolution(const model::Convolution& c, const Place& place, Rows& rows, bool silu) {
  const uint64_t channels = c.channels(), parts = (channels + channels_at_once - 1) / channels_at_once;
  const uint32_t before = c.width - 1;
  team_.run(sequences_.size() * parts, [&](uint64_t item, uint32_t thread) {
    const Sequence& sequence = sequences_[item / parts];
    const uint64_t first = item % parts * channels_at_once, count = std::min(channels_at_once, channels - first);
    float* kept = state(place, sequence) + first;            // (before, channels)
    std::vector<float>& inputs = inputs_of_thread_[thread];  // the last `before`, oldest first, and the newest
    inputs.assign(c.width * count, 0);
    if (!sequence.is_new)
      for (uint32_t t = 0; t < before; ++t) std::copy_n(kept + t * channels, count, inputs.data() + t * count);
    for (const uint32_t row : sequence.rows) {
      float* x = rows.row(row) + first;
      std::copy_n(x, count, inputs.data() + before * count);
      if (c.bias.empty())
        std::fill_n(x, count, 0.0f);
      else
        std::copy_n(c.bias.data() + first, count, x);
      for (uint32_t t = 0; t < c.width; ++t) {
        const float *weight = place.weights.data() + t * channels + first, *input = inputs.data() + t * count;
        for (uint64_t i = 0; i < count; ++i) x[i] += weight[i] * input[i];
      }
      if (silu) isa_.activate(uint8_t(model::Activation::silu), nullptr, x, nullptr, uint32_t(count), x);
      std::copy(inputs.begin() + long(count), inputs.end(), inputs.begin());
    }
    for (uint32_t t = 0; t < before; ++t) std::copy_n(inputs.data() + t * count, count, kept + t * channels);
  });
}

void RecurrentStates::shift(const model::NextHead& head, const Rows& rows, Rows& out) {
  const Place& place = places_.at(&head);
  const uint64_t width = head.join.rows;
  team_.run(sequences_.size(), [&](uint64_t item, uint32_t) {
    const Sequence& sequence = sequences_[item];
    float* kept = state(place, sequence);
    if (sequence.is_new) std::fill_n(kept, width, 0.0f);
    const float* before = kept;
    for (const uint32_t row : sequence.rows) {
      std::copy_n(before, width, out.row(row));
      before = rows.row(row);
    }
    std::copy_n(before, width, kept);
  });
}

void RecurrentStates::prepare(const model::Recurrence& r, Rows& mixed, const Rows& steps) {
  const uint64_t rows = batch_->tokens.size();
  const bool delta = r.rule == model::Recurrence::Rule::delta;
  const float scale = 1 / std::sqrt(float(r.key));
  decays_.resize(rows * r.heads);
  factors_.resize(rows * r.heads);
  team_.run(rows, [&](uint64_t row, uint32_t) {
    float* x = mixed.row(row);
    for (uint32_t k = 0; delta && k < r.key_heads; ++k) {
      divide_head_by_length(x + r.queries_at() + uint64_t(k) * r.key, r.key, scale);
      divide_head_by_length(x + r.keys_at() + uint64_t(k) * r.key, r.key, 1);
    }
    const float* given = steps.row(row);
    for (uint32_t h = 0; h < r.heads; ++h) {
      const double before = double(given[h]) + r.step_bias[h];
      const double soft = before > 20 ? before : std::log1p(std::exp(before));
      const double step = std::clamp(soft, double(r.min_step), double(r.max_step));
      decays_[row * r.heads + h] = static_cast<float>(std::exp(double(r.rates[h]) * step));
      factors_[row * r.heads + h] = static_cast<float>(delta ? 1 / (1 + std::exp(-double(given[r.heads + h]))) : step);
    }
  });
}

void RecurrentStates::run_heads(const model::Recurrence& r, const Place& place, const Rows& mixed, Rows& out) {
  const RecurHead head{r.rule == model::Recurrence::Rule::delta, r.key, r.value};
  // A head is one item, but where there are fewer than threads.
  const uint64_t heads = sequences_.size() * r.heads;
  const uint32_t parts = heads >= 2 * team_.threads() ? 1 : (r.value + recur_part - 1) / recur_part;
  team_.run(heads * parts, [&](uint64_t item, uint32_t thread) {
    const Sequence& sequence = sequences_[item / parts / r.heads];
    const uint32_t h = uint32_t(item / parts % r.heads), first = uint32_t(item % parts) * recur_part;
    const uint32_t columns = parts == 1 ? r.value : std::min(recur_part, r.value - first);
    float* s = state(place, sequence) + model::state_values(r.convolution) + uint64_t(h) * r.key * r.value;
    if (sequence.is_new)
      for (uint32_t i = 0; i < r.key; ++i) std::fill_n(s + uint64_t(i) * r.value + first, columns, 0.0f);
    std::vector<RecurRow>& rows = of_thread_[thread];
    rows.clear();
    const uint64_t key = uint64_t(r.key_head(h)) * r.key;
    for (const uint32_t row : sequence.rows) {
      const float* x = mixed.row(row);
      rows.push_back({x + r.queries_at() + key, x + r.keys_at() + key, x + r.values_at() + uint64_t(h) * r.value,
                      decays_[uint64_t(row) * r.heads + h], factors_[uint64_t(row) * r.heads + h],
                      out.row(row) + uint64_t(h) * r.value});
    }
    isa_.recur(head, s, first, columns, rows.data(), uint32_t(rows.size()));
  });
}

void RecurrentStates::recur(const model::Recurrence& r, Rows& mixed, const Rows& gates, const Rows& steps, Rows& out) {
  const Place& place = places_.at(&r);
  run_convolution(r.convolution, place, mixed, true);
  prepare(r, mixed, steps);
  run_heads(r, place, mixed, out);
  const uint32_t values = uint32_t(r.values());
  const bool across = squares_.begin(batch_->tokens.size(), r.gated_norm);
  const auto multiply = [&](uint64_t row, float* x) {
    isa_.activate(uint8_t(model::Activation::silu), nullptr, gates.row(row), x, values, x);
  };
  team_.run(batch_->tokens.size(), [&](uint64_t row, uint32_t) {
    float* x = out.row(row);
    const float* v = mixed.row(row) + r.values_at();
    for (size_t h = 0; h < r.skip.size(); ++h)
      for (uint64_t i = h * r.value; i < (h + 1) * r.value; ++i) x[i] += r.skip[h] * v[i];
    if (r.gate_first) multiply(row, x);
    if (across) return squares_.put(row, r.gated_norm, false, square_sum(x, values));
    normalise_heads(r.gated_norm, x, values, r.norm_size, true);
    if (!r.gate_first) multiply(row, x);
    out.finish(row, isa_);
  });
  if (!across) return;
  ranks_.sum(squares_.all());
  team_.run(batch_->tokens.size(), [&](uint64_t row, uint32_t) {
    float* x = out.row(row);
    normalise_across(r.gated_norm, squares_.of(row, r.gated_norm, false), x, values);
    if (!r.gate_first) multiply(row, x);
    out.finish(row, isa_);
  });
}

void RecurrentStates::convolve(const model::ShortConvolution& c, Rows& mixed, Rows& out) {
  const uint64_t channels = c.convolution.channels();
  const uint64_t rows = batch_->tokens.size();
  team_.run(rows, [&](uint64_t row, uint32_t) {
    float* x = mixed.row(row);
    for (uint64_t i = 0; i < channels; ++i) x[i] *= x[2 * channels + i];
  });
  run_convolution(c.convolution, places_.at(&c), mixed, false);
  team_.run(rows, [&](uint64_t row, uint32_t) {
    const float* x = mixed.row(row);
    float* to = out.row(row);
    for (uint64_t i = 0; i < channels; ++i) to[i] = x[i] * x[channels + i];
    out.finish(row, isa_);
  });
}

void RecurrentStates::copy(uint32_t from, uint32_t to) {
  check(from < slots_ && to < slots_, "slots of states");
  float* all = reinterpret_cast<float*>(states_.data());
  if (from != to) std::copy_n(all + from * slot_values_, slot_values_, all + to * slot_values_);
}

}  // namespace heddle::cpu

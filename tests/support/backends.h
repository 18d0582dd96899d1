// Backends to build tests with: one with layers that do nothing, one in front of another, and what makes a device of
// either: it picks tokens and lets batches follow one another, as a GPU does.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <numeric>

#include "engine/sampling/sampler.h"
#include "model/backend.h"

namespace heddle::test {

// Computes nothing between begin() and result().
class IdleBackend : public model::Backend {
 public:
  void embed() override {}
  void compute(uint32_t, uint32_t) override {}
  void add(uint32_t, uint32_t) override {}
  void head() override {}
  void copy_block(uint32_t, uint32_t) override {}
};

class ForwardingBackend : public model::Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<model::Backend> inner) : inner_(std::move(inner)) {}

  std::string describe() const override { return "in front of " + inner_->describe(); }
  void begin(const model::Batch& batch) override { inner_->begin(batch); }
  void embed() override { inner_->embed(); }
  void compute(uint32_t layer, uint32_t sublayer) override { inner_->compute(layer, sublayer); }
  void add(uint32_t layer, uint32_t sublayer) override { inner_->add(layer, sublayer); }
  void keep_states() override { inner_->keep_states(); }
  void head() override { inner_->head(); }
  model::Result result() override { return inner_->result(); }
  void copy_block(uint32_t from, uint32_t to) override { inner_->copy_block(from, to); }
  void copy_window_block(uint32_t from, uint32_t to) override { inner_->copy_window_block(from, to); }
  void copy_state(uint32_t from, uint32_t to) override { inner_->copy_state(from, to); }

 private:
  std::unique_ptr<model::Backend> inner_;
};

// The sampler that picks what a device with this Picking picks.
inline engine::Sampler sampler_of(const model::Picking& p, uint32_t vocabulary) {
  engine::Sampling s{.temperature = p.temperature, .top_k = int32_t(p.top_k), .top_p = p.top_p};
  s.min_p = std::isinf(p.log_min_p) ? 0 : float(std::exp(p.log_min_p));
  s.repetition_penalty = p.repetition;
  s.repetition_last_n = p.repetition_last == ~0u ? -1 : int32_t(p.repetition_last);
  s.presence_penalty = p.presence;
  s.frequency_penalty = p.frequency;
  s.logit_bias.insert(p.biases.begin(), p.biases.end());
  s.seed = p.seed;
  if (p.logprob) s.logprobs = p.top;
  engine::Sampler sampler(s, vocabulary);
  for (uint64_t i = 0; i < p.picks; ++i) sampler.skip_pick();
  for (size_t i = 0; i < p.text.size(); ++i)
    sampler.accept(p.text[i], i < p.prompt ? engine::Origin::prompt : engine::Origin::generated);
  return sampler;
}

// A backend that sends its logits to the host, as a device. Wrong use of it is a failure of the test.
template <class Inner>
class DeviceBackend : public Inner {
 public:
  template <class... Args>
  explicit DeviceBackend(const model::Model& model, Args&&... args)
      : Inner(std::forward<Args>(args)...), vocabulary_(model.vocabulary) {}

  bool can_pick(const model::Picking& picking) const override {
    return picking.biases.size() <= max_biases && picking.top <= max_top;
  }
  uint32_t max_in_flight() const override { return 4; }
  uint32_t max_followed_rows() const override { return followed_rows; }
  uint32_t max_followed_changes() const override { return followed_changes; }

  void begin(const model::Batch& batch) override {
    EXPECT_TRUE(!batch.follows || masks_due_ == 0) << "the batch before has picked nothing yet";
    if (batch.follows) {
      EXPECT_TRUE(followable_) << "the batch before cannot be followed";
      EXPECT_LT(waiting_.size(), max_in_flight());
      EXPECT_TRUE(batch.tokens.empty() && batch.blocks.empty() && batch.picking.empty()) << "nothing is sent";
      EXPECT_EQ(batch.predicts, batch_.predicts);
      std::iota(batch_.after.begin(), batch_.after.end(), 0u);
      ++followed;
      for (size_t i = 0; i < batch_.tokens.size(); ++i) {
        const uint32_t id = last_picks_[i]->id;
        batch_.tokens[i] = id == ~0u ? 0 : id;
        ++batch_.positions[i];
      }
    } else {
      dropped += uint32_t(waiting_.size());
      waiting_.clear();
      take_batch(batch);
    }
    ++launched;
    launched_rows += batch_.tokens.size();
    Inner::begin(batch_);
  }
  void head() override {
    Inner::head();
    const model::Result all = Inner::result();
    head_logits_.assign(all.logits.begin(), all.logits.end());
    head_states_.assign(all.states.begin(), all.states.end());
    masks_due_ = size_t(std::count(constrained_.begin(), constrained_.end(), true));
    if (masks_due_ == 0) pick_all({});
  }
  void allow(std::span<const std::span<const uint32_t>> masks) override {
    EXPECT_EQ(masks.size(), masks_due_) << "one for each constrained picking of a batch that has none yet";
    masks_due_ = 0;
    pick_all(masks);
  }
  model::Result result() override {
    EXPECT_TRUE(masks_due_ == 0 || !waiting_.empty()) << "nothing is picked before allow()";
    if (waiting_.empty()) throw std::logic_error("no batch is waited for");
    taken_ = std::move(waiting_.front());
    waiting_.pop_front();
    ++taken;
    return {taken_.picked, taken_.logits, taken_.states};
  }
  uint32_t followed_rows = 8;                                   // of more rows there are none that follow
  uint32_t followed_changes = 8;                                // nor of more that change logits
  size_t max_biases = SIZE_MAX;                                 // of a picking
  uint32_t max_top = 20;                                        // the same
  uint32_t nothing_at = ~0u;                                    // the pick, counted from 0, that finds nothing
  uint32_t launched = 0, followed = 0, taken = 0, dropped = 0;  // batches
  uint64_t launched_rows = 0;
  uint64_t picks = 0, logits_rows = 0;   // outputs that were picked, and logits that went to the host
  std::vector<model::Picking> pickings;  // of the last batch that followed none
  bool waits() const { return !waiting_.empty(); }

 private:
  void pick_all(std::span<const std::span<const uint32_t>> masks) {
    Waiting& waiting = waiting_.emplace_back();
    waiting.states = head_states_;
    size_t mask = 0;
    for (size_t i = 0; i < batch_.outputs.size(); ++i) {
      const auto row = std::span<const float>(head_logits_).subspan(i * vocabulary_, vocabulary_);
      const bool constrained = i < constrained_.size() && constrained_[i];
      if (i < samplers_.size())
        waiting.picked.push_back(pick(samplers_[i], row, constrained ? masks[mask++] : std::span<const uint32_t>()));
      if (i < samplers_.size() && samplers_[i]) continue;
      waiting.logits.insert(waiting.logits.end(), row.begin(), row.end());
      ++logits_rows;
    }
    last_picks_ = waiting.picked;
  }
  void take_batch(const model::Batch& batch) {
    batch_ = batch;
    samplers_.clear();
    constrained_.clear();
    masks_due_ = 0;
    pickings.clear();
    followable_ = batch.tokens.size() <= followed_rows && batch.outputs.size() == batch.tokens.size();
    followable_ &= batch.picking.size() == batch.outputs.size() && batch.states.empty();
    uint32_t changes = 0;
    for (const auto& picking : std::exchange(batch_.picking, {})) {
      followable_ &= picking.has_value();
      samplers_.emplace_back();
      constrained_.push_back(picking && picking->constrained);
      if (!picking) continue;
      changes += picking->changes_logits();
      EXPECT_TRUE(can_pick(*picking));
      EXPECT_TRUE(!picking->has_penalties() || !picking->text.empty()) << "penalties look at the text";
      pickings.push_back(*picking);
      samplers_.back() = sampler_of(*picking, vocabulary_);
    }
    followable_ &= changes <= followed_changes;
  }
  std::optional<model::Picked> pick(std::optional<engine::Sampler>& sampler, std::span<const float> logits,
                                    std::span<const uint32_t> allowed) {
    if (!sampler) return std::nullopt;
    const engine::Pick pick = sampler->pick(logits, allowed);
    sampler->accept(pick.id);
    model::Picked picked{picks++ == nothing_at ? ~0u : pick.id, pick.log_probability};
    for (const engine::TokenLogprob& top : pick.top) picked.top.emplace_back(top.id, top.log_probability);
    return picked;
  }

  struct Waiting {
    std::vector<std::optional<model::Picked>> picked;
    std::vector<float> logits, states;
  };
  const uint32_t vocabulary_;
  model::Batch batch_;  // without pickings
  bool followable_ = false;
  std::vector<std::optional<engine::Sampler>> samplers_;  // of the outputs
  std::vector<bool> constrained_;                         // the same
  std::vector<float> head_logits_, head_states_;          // of the last batch
  size_t masks_due_ = 0;                                  // before it picks
  std::vector<std::optional<model::Picked>> last_picks_;
  std::deque<Waiting> waiting_;
  Waiting taken_;
};

}  // namespace heddle::test

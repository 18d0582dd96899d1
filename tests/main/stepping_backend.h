// The CPU backend with steps of its own, as a GPU has them: what goes wrong in their use is a failure here.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <numeric>

#include "engine/sampler.h"
#include "model/forward.h"

namespace heddle::test {

// The sampler that picks what a device with this Picking picks.
inline engine::Sampler sampler_of(const model::Picking& p, uint32_t vocabulary) {
  engine::Sampling s{.temperature = p.temperature, .top_k = int32_t(p.top_k), .top_p = p.top_p};
  s.min_p = std::isinf(p.log_min_p) ? 0 : float(std::exp(p.log_min_p));
  s.repetition_penalty = p.repetition;
  s.repetition_last_n = p.repetition_last == ~0u ? -1 : int32_t(p.repetition_last);
  s.presence_penalty = p.presence, s.frequency_penalty = p.frequency;
  s.logit_bias.insert(p.biases.begin(), p.biases.end());
  s.seed = p.seed;
  if (p.logprob) s.logprobs = 0;
  engine::Sampler sampler(s, vocabulary);
  for (uint64_t i = 0; i < p.picks; ++i) sampler.pick(std::vector<float>(vocabulary, 0.0f));  // counts
  for (size_t i = 0; i < p.text.size(); ++i)
    sampler.accept(p.text[i], i < p.prompt ? engine::Origin::prompt : engine::Origin::generated);
  return sampler;
}

class SteppingBackend : public model::Backend {
 public:
  SteppingBackend(const model::Model& model, std::unique_ptr<model::Backend> inner)
      : model_(model), inner_(std::move(inner)) {}

  std::string describe() const override { return "steps on " + inner_->describe(); }
  void begin(const model::Batch& batch) override {
    EXPECT_FALSE(stepping) << "something else is computed while there are steps";
    inner_->begin(batch);
  }
  void embed() override { inner_->embed(); }
  void qkv(uint32_t layer) override { inner_->qkv(layer); }
  void attend(uint32_t layer) override { inner_->attend(layer); }
  void output_add(uint32_t layer) override { inner_->output_add(layer); }
  void ffn_in(uint32_t layer) override { inner_->ffn_in(layer); }
  void ffn_out_add(uint32_t layer) override { inner_->ffn_out_add(layer); }
  void logits() override { inner_->logits(); }
  std::span<const float> result() override { return inner_->result(); }
  std::unique_ptr<model::Steps> steps(const model::Batch& batch, std::span<const model::Picking> picking) override;

  uint32_t begun = 0, launched = 0, taken = 0;  // steps, of all that there were
  uint32_t nothing_at = ~0u;                    // the step, counted from 0, that finds nothing to pick
  bool stepping = false;
  std::vector<model::Picking> last;

 private:
  friend class SomeSteps;
  const model::Model& model_;
  std::unique_ptr<model::Backend> inner_;
};

class SomeSteps : public model::Steps {
 public:
  SomeSteps(SteppingBackend& backend, const model::Batch& batch, std::span<const model::Picking> picking)
      : backend_(backend), batch_(batch) {
    for (const model::Picking& p : picking) samplers_.push_back(sampler_of(p, backend.model_.vocabulary));
    batch_.outputs.resize(batch_.tokens.size());
    std::iota(batch_.outputs.begin(), batch_.outputs.end(), 0u);
    backend_.stepping = true;
  }
  ~SomeSteps() override { backend_.stepping = false; }

  void launch() override {
    for (size_t i = 0; i < batch_.tokens.size(); ++i)
      EXPECT_LT(batch_.positions[i], backend_.model_.context) << "beyond the context";
    model::forward(backend_.model_, *backend_.inner_, batch_);
    std::vector<model::Picked> picked;
    for (size_t i = 0; i < samplers_.size(); ++i) {
      const uint32_t size = backend_.model_.vocabulary;
      const engine::Pick pick = samplers_[i].pick(backend_.inner_->result().subspan(i * size, size));
      samplers_[i].accept(pick.id);
      const bool nothing = backend_.launched == backend_.nothing_at;
      picked.push_back({nothing ? ~0u : pick.id, pick.log_probability});
      batch_.tokens[i] = nothing ? 0 : pick.id;
      ++batch_.positions[i];
    }
    waiting_.push_back(picked);
    ++backend_.launched;
  }
  std::span<const model::Picked> take() override {
    EXPECT_FALSE(waiting_.empty());
    taken_ = waiting_.front();
    waiting_.pop_front();
    ++backend_.taken;
    return taken_;
  }

 private:
  SteppingBackend& backend_;
  model::Batch batch_;
  std::vector<engine::Sampler> samplers_;
  std::deque<std::vector<model::Picked>> waiting_;
  std::vector<model::Picked> taken_;
};

inline std::unique_ptr<model::Steps> SteppingBackend::steps(const model::Batch& batch,
                                                            std::span<const model::Picking> picking) {
  EXPECT_FALSE(stepping);
  EXPECT_EQ(batch.tokens.size(), picking.size());
  ++begun;
  last.assign(picking.begin(), picking.end());
  return std::make_unique<SomeSteps>(*this, batch, picking);
}

}  // namespace heddle::test

// The CPU backend with steps of its own, as a GPU has them: what goes wrong in their use is a failure here.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "model/forward.h"
#include "tests/support/device_sampler.h"

namespace heddle::test {

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
  void compute(uint32_t layer, uint32_t sublayer) override { inner_->compute(layer, sublayer); }
  void add(uint32_t layer, uint32_t sublayer) override { inner_->add(layer, sublayer); }
  void copy_block(uint32_t, uint32_t) override { ADD_FAILURE() << "one sequence copies nothing"; }
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

// The fake backend with what a GPU has beside the verbs: picks on the device, and steps that go on by themselves.
#pragma once
#include <deque>

#include "tests/engine/fake_backend.h"
#include "tests/support/device_sampler.h"

namespace heddle::test::fake {

class DeviceBackend : public FakeBackend {
 public:
  using FakeBackend::FakeBackend;

  void begin(const model::Batch& batch) override {
    EXPECT_FALSE(stepping) << "something else is computed while there are steps";
    FakeBackend::begin(batch);
  }
  std::span<const model::Picked> pick(std::span<const model::Picking> pickings) override;
  std::unique_ptr<model::Steps> steps(const model::Batch& batch, std::span<const model::Picking> pickings) override;
  void copy_block(uint32_t from, uint32_t to) override {
    EXPECT_FALSE(stepping);
    FakeBackend::copy_block(from, to);
  }

  bool picks = true;
  uint32_t most_steps_rows = 8;  // of more rows there are no steps
  uint32_t picked_batches = 0, begun = 0, launched = 0, taken = 0, refused = 0;
  uint64_t launched_rows = 0;
  uint32_t nothing_at = ~0u;  // the pick, counted from 0, that finds nothing
  bool stepping = false;

 private:
  friend class DeviceSteps;
  model::Picked pick_one(engine::Sampler& sampler, std::span<const float> logits) {
    const engine::Pick pick = sampler.pick(logits);
    sampler.accept(pick.id);
    return {picks_made_++ == nothing_at ? ~0u : pick.id, pick.log_probability};
  }
  uint32_t picks_made_ = 0;
  std::vector<model::Picked> picked_;
};

class DeviceSteps : public model::Steps {
 public:
  DeviceSteps(DeviceBackend& backend, const model::Batch& batch, std::span<const model::Picking> pickings)
      : backend_(backend), batch_(batch) {
    for (const model::Picking& p : pickings) samplers_.push_back(sampler_of(p, backend.model_.vocabulary));
    backend_.stepping = true;
  }
  ~DeviceSteps() override { backend_.stepping = false; }

  void launch() override {
    EXPECT_LT(waiting_.size(), 4u) << "so far ahead is no use";
    ++backend_.launched;
    backend_.launched_rows += samplers_.size();
    backend_.pass_time(batch_);
    std::vector<float> logits(backend_.model_.vocabulary);
    auto& picked = waiting_.emplace_back();
    for (size_t i = 0; i < samplers_.size(); ++i) {
      const auto& table = batch_.blocks[batch_.sequences[i]];
      const uint32_t position = batch_.positions[i]++;
      EXPECT_LT(position, backend_.model_.context);
      backend_.feed(table, batch_.tokens[i], position, backend_.read(table, position)).logits(backend_.model_, logits);
      picked.push_back(backend_.pick_one(samplers_[i], logits));
      batch_.tokens[i] = picked.back().id == ~0u ? 0 : picked.back().id;
    }
    backend_.fail_if_due();
  }
  std::span<const model::Picked> take() override {
    EXPECT_FALSE(waiting_.empty());
    ++backend_.taken;
    taken_ = std::move(waiting_.front());
    waiting_.pop_front();
    return taken_;
  }

 private:
  DeviceBackend& backend_;
  model::Batch batch_;
  std::vector<engine::Sampler> samplers_;
  std::deque<std::vector<model::Picked>> waiting_;
  std::vector<model::Picked> taken_;
};

inline std::span<const model::Picked> DeviceBackend::pick(std::span<const model::Picking> pickings) {
  if (!picks) return {};
  EXPECT_EQ(pickings.size() * model_.vocabulary, logits_.size());
  ++picked_batches;
  picked_.clear();
  for (size_t i = 0; i < pickings.size(); ++i) {
    EXPECT_TRUE(pickings[i].repetition == 1 && pickings[i].presence == 0 && pickings[i].frequency == 0);
    engine::Sampler sampler = sampler_of(pickings[i], model_.vocabulary);
    picked_.push_back(pick_one(sampler, std::span(logits_).subspan(i * model_.vocabulary, model_.vocabulary)));
  }
  return picked_;
}

inline std::unique_ptr<model::Steps> DeviceBackend::steps(const model::Batch& batch,
                                                          std::span<const model::Picking> pickings) {
  EXPECT_FALSE(stepping);
  EXPECT_EQ(batch.tokens.size(), pickings.size());
  if (pickings.size() > most_steps_rows) {
    ++refused;
    return nullptr;
  }
  ++begun;
  return std::make_unique<DeviceSteps>(*this, batch, pickings);
}

}  // namespace heddle::test::fake

// For timing speculative decoding with random weights, which agree on no token: a backend that changes picks so that a
// given share of proposals is accepted. The generated text is meaningless.
#pragma once
#include <random>

#include "model/backend.h"

namespace heddle {

// In front of another backend, which must outlive it. Of a sequence with k proposals in a batch, the first a are
// accepted: share * k, rounded up or down at random, so that it is the share on average.
class ForcedAcceptance : public model::Backend {
 public:
  ForcedAcceptance(model::Backend& inner, uint32_t vocabulary, double share, uint64_t seed = 1)
      : inner_(inner), vocabulary_(vocabulary), share_(share), random_(seed) {}

  std::string describe() const override { return inner_.describe(); }
  void begin(const model::Batch& batch) override;
  void embed() override { inner_.embed(); }
  void compute(uint32_t layer, uint32_t sublayer) override { inner_.compute(layer, sublayer); }
  void add(uint32_t layer, uint32_t sublayer) override { inner_.add(layer, sublayer); }
  void keep_states() override { inner_.keep_states(); }
  void head() override { inner_.head(); }
  void allow(std::span<const std::span<const uint32_t>> masks) override { inner_.allow(masks); }
  model::Result result() override;
  bool can_pick(const model::Picking& picking) const override { return inner_.can_pick(picking); }
  bool computes_rows_in_groups() const override { return inner_.computes_rows_in_groups(); }
  uint32_t max_in_flight() const override { return inner_.max_in_flight(); }
  uint32_t max_followed_rows() const override { return inner_.max_followed_rows(); }
  uint32_t max_followed_changes() const override { return inner_.max_followed_changes(); }
  void copy_block(uint32_t from, uint32_t to) override { inner_.copy_block(from, to); }
  void copy_window_block(uint32_t from, uint32_t to) override { inner_.copy_window_block(from, to); }
  void copy_state(uint32_t from, uint32_t to) override { inner_.copy_state(from, to); }
  bool usable() const override { return inner_.usable(); }
  std::vector<model::KernelTime> kernel_times() override { return inner_.kernel_times(); }
  std::optional<model::SplitTimes> split_times() override { return inner_.split_times(); }

 private:
  // An output that a proposal follows.
  struct Judged {
    uint32_t output, proposal;
    bool right;
  };

  model::Backend& inner_;
  const uint32_t vocabulary_;
  const double share_;
  std::mt19937_64 random_;
  std::vector<Judged> judged_;  // of the last batch that did not follow another
  std::vector<std::optional<model::Picked>> picked_;
  std::vector<float> logits_;
};

}  // namespace heddle

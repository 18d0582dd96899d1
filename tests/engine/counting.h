// A model that counts: token n + 1 follows token n, and the state has a 1 at n modulo the width. For tests in which the
// computed values do not matter.
#pragma once
#include <functional>
#include <mutex>
#include <vector>

#include "tests/support/backends.h"

namespace heddle::test {

inline constexpr uint32_t counting_vocabulary = 100, counting_width = 8;

inline model::Model counting_model(uint32_t context = 4096) {
  model::Model model;
  model.name = "counting";
  model.context = context;
  model.vocabulary = counting_vocabulary;
  model.width = counting_width;
  model.output = {.rows = counting_vocabulary, .cols = counting_width};
  return model;
}

class CountingBackend : public IdleBackend {
 public:
  std::function<void()> each_batch;  // may wait, or throw

  std::string describe() const override { return "counting"; }
  void begin(const model::Batch& batch) override {
    if (each_batch) each_batch();
    const std::lock_guard lock(mutex_);
    batches_.push_back(batch.tokens);
    logits_.assign(batch.outputs.size() * counting_vocabulary, 0);
    for (size_t i = 0; i < batch.outputs.size(); ++i)
      logits_[i * counting_vocabulary + (batch.tokens[batch.outputs[i]] + 1) % counting_vocabulary] = 50;
    states_.assign(batch.states.size() * counting_width, 0);
    for (size_t i = 0; i < batch.states.size(); ++i)
      states_[i * counting_width + batch.tokens[batch.states[i]] % counting_width] = 1;
  }
  model::Result result() override { return {{}, logits_, states_}; }
  std::vector<std::vector<uint32_t>> batches() const {  // the tokens of each, so far
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::vector<uint32_t>> batches_;
  std::vector<float> logits_, states_;
};

}  // namespace heddle::test

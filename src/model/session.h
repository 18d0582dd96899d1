// One sequence on a backend: tokens in, logits out. For checks of a backend by itself; requests are the engine's.
#pragma once
#include <functional>

#include "model/backend.h"

namespace heddle::model {

// Limits for one sequence of `context` tokens, fed in batches of up to `rows`.
Limits limits_for(uint32_t context, uint32_t rows = 512);

class Session {
 public:
  // Both must outlive it, and only this session may use the backend's cache.
  Session(const Model& model, Backend& backend, const Limits& limits);

  uint32_t length() const { return length_; }  // tokens computed
  uint32_t context() const { return context_; }

  // Computes the tokens, in as many batches as it takes, and returns the logits after the last. An Error if they do not
  // fit into the context or are not of the vocabulary. Where a model rotates long texts otherwise, what was fed before
  // stays as it was computed.
  std::span<const float> feed(std::span<const uint32_t> tokens);
  // The same, with the logits after each token given to `each(index, logits)`.
  void feed_each(std::span<const uint32_t> tokens, const std::function<void(size_t, std::span<const float>)>& each);

  // Forgets what comes after. A model with recurrent states forgets everything or nothing.
  void rewind(uint32_t length);

 private:
  void put(std::span<const uint32_t> tokens, bool all);  // into batch_, from length_ on
  void expect_takes(std::span<const uint32_t> tokens) const;

  const Model& model_;
  Backend& backend_;
  Limits limits_;
  uint32_t context_, length_ = 0;
  Batch batch_;
};

}  // namespace heddle::model

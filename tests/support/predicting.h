// One sequence on the backend of a model with a head for multi-token prediction: what the head says.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "model/forward.h"
#include "model/session.h"
#include "tests/support/running.h"

namespace heddle::test {

class Predicting {
 public:
  Predicting(const model::Model& model, const MakeBackend& make, uint32_t rows = 64, uint32_t slots = 2)
      : model_(model), limits_(model::limits_for(model.context, rows)) {
    limits_.state_slots = slots;
    backend_ = make(model, limits_);
    for (uint32_t i = 0; i < limits_.kv_blocks; ++i) table_.push_back((i * 5 + 2) % limits_.kv_blocks);
  }

  // The next tokens of the text, in one batch; the logits after the last.
  std::vector<float> feed(std::span<const uint32_t> tokens) {
    model::Batch batch;
    batch.slots = {slot};
    for (const uint32_t token : tokens) add(batch, token, length++);
    last_row_ = uint32_t(tokens.size()) - 1;
    return run(batch);
  }
  // What the head says after these tokens, which follow the text: the first reads the model's last result, the others
  // the head's.
  std::vector<std::vector<float>> predict(std::span<const uint32_t> tokens) {
    std::vector<std::vector<float>> all;
    for (uint32_t i = 0; i < tokens.size(); ++i) {
      model::Batch batch;
      batch.predicts = true;
      batch.after = {i == 0 ? last_row_ : 0};
      add(batch, tokens[i], length + i);
      all.push_back(run(batch));
    }
    return all;
  }
  model::Backend& backend() { return *backend_; }

  uint32_t length = 0, slot = 0;  // of the text, and of its state

 private:
  void add(model::Batch& batch, uint32_t token, uint32_t position) {
    batch.tokens.push_back(token);
    batch.positions.push_back(position);
    batch.sequences.push_back(0);
  }
  std::vector<float> run(model::Batch& batch) {
    batch.blocks = {table_};
    batch.outputs = {uint32_t(batch.tokens.size()) - 1};
    model::forward(model_, *backend_, batch);
    const std::span<const float> logits = backend_->result().logits;
    return {logits.begin(), logits.end()};
  }

  const model::Model& model_;
  model::Limits limits_;
  std::unique_ptr<model::Backend> backend_;
  std::vector<uint32_t> table_;
  uint32_t last_row_ = 0;
};

}  // namespace heddle::test

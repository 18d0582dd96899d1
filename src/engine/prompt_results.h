// What a request wants of its prompt beside the KV: logits or log-probabilities of its tokens, or its states pooled to
// an embedding. Rows are added in order, each once, however often they are computed.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "engine/request.h"
#include "model/backend.h"

namespace heddle::engine {

class PromptResults {
 public:
  PromptResults(const Request& request, const model::Model& model);

  // Rows whose logits or states are still wanted: [from, to). If tokens are generated, the logits of the last row are
  // for the first of them, and not among these.
  struct Range {
    uint32_t from = 0, to = 0;
    bool contains(uint32_t row) const { return row >= from && row < to; }
    bool empty() const { return from >= to; }
  };
  Range logits() const { return logits_; }
  Range states() const { return pooled_; }
  // The first row that is still wanted; UINT32_MAX: no row is.
  uint32_t next() const;

  void add_logits(const Request& request, std::span<const float> logits);  // of row logits().from; throws as score()
  void add_state(std::span<const float> state);                            // of row states().from

  // For Event::prompt_picks: null if they were not asked for, or are not complete.
  std::shared_ptr<const std::vector<Pick>> scores() const { return logits_.empty() ? scores_ : nullptr; }
  std::vector<float> embedding() const;  // normalised; empty if it was not asked for

 private:
  std::shared_ptr<std::vector<Pick>> scores_;
  Range logits_, pooled_;  // rows to be added
  std::vector<double> sum_;
};

}  // namespace heddle::engine

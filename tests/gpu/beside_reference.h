// The same batches on an interpreted GPU and on the reference backend, whose results must agree.
#pragma once
#include <map>

#include "cpu/reference.h"
#include "gpu/gpu.h"
#include "model/forward.h"
#include "tests/gpu/interpreted_gpu.h"
#include "tests/support/closeness.h"

namespace heddle::gpu {

// New tokens of a sequence.
struct NewRows {
  uint32_t sequence, count;
};

class BesideReference {
 public:
  // `bound`: of the largest difference, as a share of the range of a batch's logits.
  BesideReference(const model::Model& model, const model::Limits& limits, const Options& options, double bound)
      : model_(model),
        limits_(limits),
        bound_(bound),
        reference_(cpu::make_reference(model, limits)),
        backend_(make_gpu(model, limits, options)) {}

  enum Outputs { all, last };  // of each sequence
  model::Batch batch_of(const std::vector<NewRows>& rows, Outputs outputs) {
    model::Batch batch;
    for (const NewRows& one : rows) {
      for (uint32_t i = 0; i < one.count; ++i) {
        const uint32_t position = length_[one.sequence]++;
        if (outputs == all || i + 1 == one.count) batch.outputs.push_back(uint32_t(batch.tokens.size()));
        batch.tokens.push_back((one.sequence * 31 + position * 17 + 5) % model_.vocabulary);
        batch.positions.push_back(position);
        batch.sequences.push_back(uint32_t(batch.blocks.size()));
      }
      batch.blocks.push_back(blocks_of(one.sequence));
    }
    return batch;
  }

  // Computes the rows on both and compares.
  void feed(const std::vector<NewRows>& rows, Outputs outputs = all) { compare(batch_of(rows, outputs)); }
  void compare(const model::Batch& batch) {
    model::forward(model_, *reference_, batch);
    model::forward(model_, *backend_, batch);
    expect_near("logits", reference_->result(), backend_->result());
    if (!batch.states.empty()) expect_near("states", reference_->states(), backend_->states());
  }

  model::Backend& backend() { return *backend_; }

 private:
  // Its own, in descending order, so that neither a block nor its place in the table is the position's.
  std::vector<uint32_t> blocks_of(uint32_t sequence) const {
    const uint32_t each = (model_.context + limits_.block_tokens - 1) / limits_.block_tokens;
    check((sequence + 1) * each <= limits_.kv_blocks, "blocks for every sequence");
    std::vector<uint32_t> blocks;
    for (uint32_t i = 0; i < each; ++i) blocks.push_back((sequence + 1) * each - 1 - i);
    return blocks;
  }
  void expect_near(const char* what, std::span<const float> right, std::span<const float> found) const {
    const std::vector<float> a(right.begin(), right.end()), b(found.begin(), found.end());
    if (!a.empty() || !b.empty()) {
      EXPECT_LE(test::worst(a, b), bound_) << what;
    }
  }

  const model::Model& model_;
  model::Limits limits_;
  double bound_;
  std::unique_ptr<model::Backend> reference_, backend_;
  std::map<uint32_t, uint32_t> length_;  // of each sequence
};

}  // namespace heddle::gpu

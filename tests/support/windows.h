// A backend with blocks of windows behind batches that have one block table: each sequence has a second table, gives
// back what no later row sees, and others take these blocks next.
#pragma once
#include <map>

#include "tests/support/backends.h"

namespace heddle::test {

class WithWindows : public ForwardingBackend {
 public:
  // `limits`: those of the backend, with window_blocks.
  WithWindows(const model::Model& model, const model::Limits& limits, std::unique_ptr<model::Backend> backend)
      : ForwardingBackend(std::move(backend)), sights_(model::windows_of(model)), block_tokens_(limits.block_tokens) {
    for (uint32_t block = 0; block < limits.window_blocks; ++block) free_.push_back(block);
  }

  void begin(const model::Batch& batch) override {
    if (batch.follows) return ForwardingBackend::begin(batch);
    batch_ = batch;
    batch_.window_blocks.clear();
    for (uint32_t i = 0; i < batch.blocks.size(); ++i) batch_.window_blocks.push_back(table_of(batch, i));
    ForwardingBackend::begin(batch_);
  }

 private:
  // A sequence is known by its first block.
  std::vector<uint32_t> table_of(const model::Batch& batch, uint32_t sequence) {
    const auto first_row = std::find(batch.sequences.begin(), batch.sequences.end(), sequence);
    std::vector<uint32_t>& table = tables_[batch.blocks[sequence].at(0)];
    table.resize(batch.blocks[sequence].size(), model::no_block);
    if (first_row == batch.sequences.end()) return table;
    const auto first = size_t(first_row - batch.sequences.begin());
    const auto rows = size_t(std::count(batch.sequences.begin(), batch.sequences.end(), sequence));
    const uint32_t position = batch.positions[first];
    const uint32_t from = sights_.first_seen(position) / block_tokens_;
    uint32_t last = batch.positions[first + rows - 1] / block_tokens_;
    if (!batch.picking.empty()) ++last;  // for a block of batches that follow
    for (uint32_t i = 0; i < from; ++i)
      if (table[i] != model::no_block) free_.push_back(std::exchange(table[i], model::no_block));
    for (uint32_t i = from; i <= last; ++i) {
      if (table[i] != model::no_block) continue;
      EXPECT_GE((i + 1) * block_tokens_, position) << "what the rows see was given back";
      if (free_.empty()) throw std::logic_error("too few blocks of windows for this test");
      table[i] = free_.back();  // the one that was given back last
      free_.pop_back();
    }
    return table;
  }

  const model::Windows sights_;
  const uint32_t block_tokens_;
  std::vector<uint32_t> free_;
  std::map<uint32_t, std::vector<uint32_t>> tables_;
  model::Batch batch_;
};

}  // namespace heddle::test

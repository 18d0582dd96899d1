// What stages compute is in leader_test.cpp.
#include "ranks/stage.h"

#include <gtest/gtest.h>

#include <random>

namespace heddle::ranks {
namespace {

TEST(MicroBatches, HaveAllRowsInOrder) {
  std::mt19937 random(5);
  for (uint32_t round = 0; round < 200; ++round) {
    model::Batch batch;
    const uint32_t sequences = 1 + random() % 5, rows = 1 + random() % 40, count = 1 + random() % 8;
    for (uint32_t i = 0; i < sequences; ++i) {
      batch.blocks.push_back({i * 10, i * 10 + 1});
      batch.window_blocks.push_back({i * 20});
      batch.slots.push_back(i + 7);
    }
    for (uint32_t row = 0; row < rows; ++row) {
      batch.tokens.push_back(row * 3);
      batch.positions.push_back(row + 100);
      batch.sequences.push_back(random() % sequences);
      batch.types.push_back(random() % 2);
      if (random() % 2) batch.outputs.push_back(row);
      if (random() % 3 == 0) batch.states.push_back(row);
    }
    model::Batch joined;
    for (const model::Batch& micro : cut_into_micro_batches(batch, count)) {
      EXPECT_FALSE(micro.tokens.empty());
      EXPECT_LE(micro.tokens.size(), rows / count + 1);
      const uint32_t first = uint32_t(joined.tokens.size());
      for (size_t row = 0; row < micro.tokens.size(); ++row) {
        const uint32_t sequence = micro.sequences[row], before = micro.slots[sequence] - 7;
        EXPECT_EQ(micro.blocks[sequence], batch.blocks[before]);
        EXPECT_EQ(micro.window_blocks[sequence], batch.window_blocks[before]);
        joined.sequences.push_back(before);
        joined.tokens.push_back(micro.tokens[row]);
        joined.positions.push_back(micro.positions[row]);
        joined.types.push_back(micro.types[row]);
      }
      for (const uint32_t row : micro.outputs) joined.outputs.push_back(first + row);
      for (const uint32_t row : micro.states) joined.states.push_back(first + row);
    }
    EXPECT_EQ(joined.tokens, batch.tokens);
    EXPECT_EQ(joined.positions, batch.positions);
    EXPECT_EQ(joined.sequences, batch.sequences);
    EXPECT_EQ(joined.types, batch.types);
    EXPECT_EQ(joined.outputs, batch.outputs);
    EXPECT_EQ(joined.states, batch.states);
  }
}

}  // namespace
}  // namespace heddle::ranks

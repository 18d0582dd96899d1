// Picks that are changed so that a share of proposals is right, on a device that picks and on one that does not.
#include "main/bench/forced_acceptance.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/backends.h"

namespace heddle::test {
namespace {

constexpr uint32_t vocabulary = 7;

// Picks token 3, or has logits by which the host does.
struct ThreeBackend : IdleBackend {
  std::string describe() const override { return "three"; }
  void begin(const model::Batch& batch) override {
    picked.clear();
    logits.clear();
    for (size_t i = 0; i < batch.outputs.size(); ++i) {
      const bool picks = !batch.picking.empty() && batch.picking[i];
      if (!batch.picking.empty()) picked.push_back(picks ? std::optional(model::Picked{3, 0}) : std::nullopt);
      for (uint32_t id = 0; !picks && id < vocabulary; ++id) logits.push_back(id == 3 ? 1 : 0);
    }
  }
  model::Result result() override { return {picked, logits, {}}; }
  std::vector<std::optional<model::Picked>> picked;
  std::vector<float> logits;
};

// A prompt's last row, then `streams` sequences with `proposals` each of the same token.
model::Batch verifying(uint32_t streams, uint32_t proposals, uint32_t token) {
  model::Batch batch{.tokens = {1, 1}, .positions = {0, 1}, .sequences = {0, 0}, .outputs = {1}};
  for (uint32_t s = 1; s <= streams; ++s)
    for (uint32_t i = 0; i <= proposals; ++i) {
      batch.outputs.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back(token);
      batch.positions.push_back(i);
      batch.sequences.push_back(s);
    }
  return batch;
}

// The token of each output, as the engine would have it.
std::vector<uint32_t> tokens_of(const model::Result& result, size_t outputs) {
  std::vector<uint32_t> ids;
  size_t row = 0;
  for (size_t i = 0; i < outputs; ++i) {
    if (i < result.picked.size() && result.picked[i]) {
      ids.push_back(result.picked[i]->id);
      continue;
    }
    const auto logits = result.logits.subspan(row++ * vocabulary, vocabulary);
    ids.push_back(uint32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  return ids;
}

TEST(ForcedAcceptance, AcceptsTheShare) {
  for (const double share : {0.0, 0.3, 0.7, 1.0})
    for (const uint32_t token : {3u, 5u})  // which the model would pick anyway, or would not
      for (const int picks : {0, 1, 2}) {  // by the host, by the device, by both in turn
        ThreeBackend inner;
        ForcedAcceptance forced(inner, vocabulary, share);
        uint32_t accepted = 0, proposed = 0;
        for (uint32_t run = 0; run < 200; ++run) {
          const uint32_t streams = 1 + run % 3, proposals = 1 + run % 8;
          model::Batch batch = verifying(streams, proposals, token);
          for (size_t i = 0; picks && i < batch.outputs.size(); ++i)
            batch.picking.push_back(picks == 1 || i % 2 ? std::optional(model::Picking{}) : std::nullopt);
          forced.begin(batch);
          const std::vector<uint32_t> found = tokens_of(forced.result(), batch.outputs.size());
          ASSERT_EQ(found[0], 3u) << "a prompt has no proposals";
          for (uint32_t s = 0; s < streams; ++s) {
            const auto first = found.begin() + 1 + s * (proposals + 1);
            const auto wrong = std::find_if(first, first + proposals, [&](uint32_t id) { return id != token; });
            ASSERT_TRUE(std::none_of(wrong, first + proposals, [&](uint32_t id) { return id == token; }));
            ASSERT_EQ(first[proposals], 3u) << "the token after the last proposal is the model's";
            accepted += uint32_t(wrong - first);
            proposed += proposals;
          }
        }
        EXPECT_NEAR(double(accepted) / proposed, share, 0.03);
      }
}

}  // namespace
}  // namespace heddle::test

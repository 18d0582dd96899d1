#include "ranks/batch_code.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/shorter.h"

namespace heddle::ranks {
namespace {

using model::Batch;
using model::Picking;

// Equal in every field, bit by bit.
void expect_same(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.sequences, b.sequences);
  EXPECT_EQ(a.blocks, b.blocks);
  EXPECT_EQ(a.window_blocks, b.window_blocks);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.outputs, b.outputs);
  EXPECT_EQ(a.states, b.states);
  EXPECT_EQ(a.long_text, b.long_text);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.predicts, b.predicts);
  EXPECT_EQ(a.after, b.after);
  EXPECT_EQ(a.follows, b.follows);
  ASSERT_EQ(a.picking.size(), b.picking.size());
  for (size_t i = 0; i < a.picking.size(); ++i) {
    ASSERT_EQ(a.picking[i].has_value(), b.picking[i].has_value());
    if (!a.picking[i]) continue;
    const Picking &p = *a.picking[i], &q = *b.picking[i];
    EXPECT_EQ(p.temperature, q.temperature);
    EXPECT_EQ(p.top_k, q.top_k);
    EXPECT_EQ(p.top_p, q.top_p);
    EXPECT_EQ(p.log_min_p, q.log_min_p);
    EXPECT_EQ(p.repetition, q.repetition);
    EXPECT_EQ(p.presence, q.presence);
    EXPECT_EQ(p.frequency, q.frequency);
    EXPECT_EQ(p.repetition_last, q.repetition_last);
    EXPECT_EQ(p.biases, q.biases);
    EXPECT_EQ(p.seed, q.seed);
    EXPECT_EQ(p.picks, q.picks);
    EXPECT_EQ(p.text, q.text);
    EXPECT_EQ(p.prompt, q.prompt);
    EXPECT_EQ(p.logprob, q.logprob);
    EXPECT_EQ(p.top, q.top);
    EXPECT_EQ(p.constrained, q.constrained);
  }
}

class RandomBatches {
 public:
  explicit RandomBatches(uint64_t seed) : random_(seed) {}

  uint32_t below(uint32_t end) { return uint32_t(random_() % end); }
  bool sometimes() { return below(2); }
  uint32_t any() { return below(4) ? below(100) : uint32_t(random_()); }

  // Fields have no relation to those of the batch before.
  Batch arbitrary() {
    Batch batch;
    const uint32_t sequences = 1 + below(6), rows = below(20);
    for (uint32_t i = 0; i < sequences; ++i) {
      batch.blocks.emplace_back();
      for (uint32_t count = below(8); count > 0; --count) batch.blocks.back().push_back(any());
    }
    if (sometimes())
      for (const auto& table : batch.blocks) {
        batch.window_blocks.push_back(table);
        for (uint32_t& block : batch.window_blocks.back())
          if (sometimes()) block = model::no_block;
      }
    if (sometimes())
      for (uint32_t i = 0; i < sequences; ++i) batch.slots.push_back(any());
    for (uint32_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(any());
      batch.positions.push_back(any());
      batch.sequences.push_back(below(sequences));
      if (sometimes()) batch.outputs.push_back(i);
      if (!below(4)) batch.states.push_back(i);
    }
    if (sometimes())
      for (uint32_t i = 0; i < rows; ++i) batch.types.push_back(below(3));
    if (sometimes())
      for (size_t i = 0; i < batch.outputs.size(); ++i)
        batch.picking.push_back(sometimes() ? std::optional(picking()) : std::nullopt);
    batch.long_text = sometimes();
    batch.predicts = !below(4);
    if (batch.predicts)
      for (uint32_t i = 0; i < sequences; ++i) batch.after.push_back(any());
    return batch;
  }
  // The batch before, a token further, with sequences that end and begin.
  Batch next(const Batch& before) {
    Batch batch = before;
    batch.predicts = false;
    batch.after.clear();
    batch.states.clear();
    batch.types.clear();
    batch.tokens.clear();
    batch.positions.clear();
    batch.sequences.clear();
    batch.outputs.clear();
    std::vector<std::optional<Picking>> pickings;
    for (size_t i = 0; i < batch.blocks.size(); ++i) {
      if (!below(3)) {
        batch.blocks[i].push_back(any());
        if (!batch.window_blocks.empty()) batch.window_blocks[i].push_back(any());
      }
      if (!batch.window_blocks.empty() && !batch.window_blocks[i].empty())
        batch.window_blocks[i][below(uint32_t(batch.window_blocks[i].size()))] = model::no_block;
      batch.tokens.push_back(any());
      batch.positions.push_back(any());
      batch.sequences.push_back(uint32_t(i));
      batch.outputs.push_back(uint32_t(i));
      std::optional<Picking> of;
      for (size_t j = 0; j < before.picking.size(); ++j)
        if (before.sequences[before.outputs[j]] == i) of = before.picking[j];
      if (of && below(8)) {
        ++of->picks;
        of->text.push_back(any());
      }
      pickings.push_back(of);
    }
    if (batch.blocks.size() > 1 && !below(3)) {  // one goes, and all after it change their number
      const uint32_t gone = below(uint32_t(batch.blocks.size()));
      const auto drop = [&](auto& list) {
        if (!list.empty()) list.erase(list.begin() + gone);
      };
      drop(batch.blocks);
      drop(batch.window_blocks);
      drop(batch.slots);
      drop(pickings);
      batch.tokens.pop_back();
      batch.positions.pop_back();
      batch.sequences.pop_back();
      batch.outputs.pop_back();
    }
    batch.picking = before.picking.empty() ? decltype(pickings){} : pickings;
    return batch;
  }

 private:
  Picking picking() {
    Picking p{.temperature = float(below(20)) / 10,
              .top_k = any(),
              .top_p = float(below(10)) / 10,
              .repetition = 1 + float(below(3)),
              .presence = float(below(3)),
              .frequency = -float(below(3)),
              .repetition_last = sometimes() ? ~0u : below(64),
              .seed = random_(),
              .picks = random_() >> below(64),
              .prompt = below(5),
              .logprob = sometimes(),
              .top = below(20),
              .constrained = sometimes()};
    if (sometimes()) p.log_min_p = -double(below(100)) / 7;
    for (uint32_t count = below(4); count > 0; --count) p.biases.emplace_back(any(), float(below(9)) - 4.5f);
    for (uint32_t count = below(9); count > 0; --count) p.text.push_back(any());
    return p;
  }
  std::mt19937_64 random_;
};

TEST(BatchCode, GivesEveryFieldOfRandomBatchesAgain) {
  for (uint32_t seed = 0; seed < 300 / test::shorter; ++seed) {
    SCOPED_TRACE(seed);
    RandomBatches random(seed);
    BatchEncoder encoder;
    BatchDecoder decoder;
    Batch batch = random.arbitrary();
    for (uint32_t i = 0; i < 30; ++i) {
      const uint32_t kind = random.below(8);
      if (i > 0 && kind == 0)
        batch = random.arbitrary();
      else if (i > 0 && kind < 6)
        batch = random.next(batch);
      const bool follows = i > 0 && kind >= 6;
      const Batch sent = follows ? Batch{.predicts = batch.predicts, .follows = true} : batch;
      const uint32_t taken = random.below(32);
      uint32_t found = 0;
      const auto bytes = encoder.encode(sent, taken);
      expect_same(decoder.decode(bytes, found), sent);
      EXPECT_EQ(found, taken);
      if (follows) {
        EXPECT_EQ(bytes.size(), 1u);
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// 64 sequences with 1000 blocks each go on by a token, with the same pickings: two or three bytes for each token.
TEST(BatchCode, SendsWhatChangedAlone) {
  Batch batch;
  constexpr uint32_t sequences = 64;
  for (uint32_t i = 0; i < sequences; ++i) {
    batch.blocks.emplace_back();
    for (uint32_t block = 0; block < 1000; ++block) batch.blocks.back().push_back(i * 1000 + block * 7 % 1000);
    batch.tokens.push_back(i * 1000);
    batch.positions.push_back(31900 + i);
    batch.sequences.push_back(i);
    batch.outputs.push_back(i);
    batch.picking.push_back(Picking{.temperature = 0.7f, .seed = i, .text = std::vector<uint32_t>(1000, i)});
  }
  BatchEncoder encoder;
  encoder.encode(batch);
  for (uint32_t i = 0; i < sequences; ++i) {
    ++batch.positions[i];
    ++batch.picking[i]->picks;
    batch.picking[i]->text.push_back(batch.tokens[i]);
  }
  EXPECT_LT(encoder.encode(batch).size(), sequences * 12u);
}

TEST(BatchCode, RefusesBytesThatNoEncoderGives) {
  RandomBatches random(7);
  BatchEncoder encoder;
  const auto bytes = encoder.encode(random.arbitrary());
  uint32_t taken = 0;
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(BatchDecoder().decode(bytes.first(length), taken), Error) << length;
  Bytes longer(bytes.begin(), bytes.end());
  longer.push_back(0);
  EXPECT_THROW(BatchDecoder().decode(longer, taken), Error);
  EXPECT_THROW(BatchDecoder({.rows = 0}).decode(bytes, taken), Error);
}

TEST(BatchCode, GivesMasksAgain) {
  std::mt19937 random(3);
  for (uint32_t words : {0u, 1u, 4000u}) {
    std::vector<std::vector<uint32_t>> masks(3, std::vector<uint32_t>(words));
    for (size_t i = 0; i < masks.size(); ++i)
      for (uint32_t& word : masks[i]) word = i == 0 ? ~0u : i == 1 ? random() : (random() % 16 ? 0 : random());
    masks.emplace_back();
    const std::vector<std::span<const uint32_t>> views(masks.begin(), masks.end());
    Bytes bytes;
    encode_masks(views, bytes);
    EXPECT_EQ(decode_masks(bytes, 4, words), masks);
    EXPECT_THROW(decode_masks(bytes, 3, words), Error);
    if (words) {
      EXPECT_THROW(decode_masks(bytes, 4, words - 1), Error);
    }
  }
}

}  // namespace
}  // namespace heddle::ranks

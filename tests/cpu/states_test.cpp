// Models with recurrent states: sequences in any mix and any pieces, and states that are copied, give the same bits as
// a sequence alone.
#include "cpu/states.h"

#include <gtest/gtest.h>

#include <random>

#include "model/forward.h"
#include "tests/model/fixture.h"
#include "tests/support/reference_models.h"
#include "tests/support/running.h"

namespace heddle::test {
namespace {

using Ids = std::vector<uint32_t>;

// Sequences on one backend: sequence i has KV blocks of its own, and a slot.
class Sequences {
 public:
  static constexpr uint32_t count = 4, blocks_each = 12;

  Sequences(const model::Model& model, const MakeBackend& make)
      : model_(model),
        limits_{.rows = 64, .kv_blocks = count * blocks_each, .block_tokens = 8, .state_slots = count + 1},
        backend_(make(model, limits_)) {}

  model::Backend& backend() { return *backend_; }
  struct Slice {
    uint32_t sequence;
    Ids tokens;
  };
  // Some tokens of each of some sequences, as one batch, with rows of the sequences in turn where `mixed`.
  void step(const std::vector<Slice>& slices, bool mixed) {
    model::Batch batch;
    for (const Slice& slice : slices) {
      batch.slots.push_back(slots[slice.sequence]);
      std::vector<uint32_t>& blocks = batch.blocks.emplace_back();
      for (uint32_t i = 0; i < blocks_each; ++i) blocks.push_back(slice.sequence * blocks_each + i);
    }
    std::vector<std::pair<uint32_t, uint32_t>> order;  // slice, token
    for (uint32_t p = 0; p < slices.size(); ++p)
      for (uint32_t i = 0; i < slices[p].tokens.size(); ++i) order.emplace_back(p, i);
    if (mixed) std::stable_sort(order.begin(), order.end(), [](auto a, auto b) { return a.second < b.second; });
    for (const auto& [p, i] : order) {
      batch.outputs.push_back(uint32_t(batch.tokens.size()));
      batch.tokens.push_back(slices[p].tokens[i]);
      batch.sequences.push_back(p);
      batch.positions.push_back(length[slices[p].sequence] + i);
    }
    model::forward(model_, *backend_, batch);
    const std::span<const float> result = backend_->result().logits;
    for (size_t row = 0; row < order.size(); ++row) {
      std::vector<float>& to = logits[slices[order[row].first].sequence];
      to.insert(to.end(), result.begin() + long(row * model_.vocabulary),
                result.begin() + long((row + 1) * model_.vocabulary));
    }
    for (const Slice& slice : slices) length[slice.sequence] += uint32_t(slice.tokens.size());
  }
  // Sequence `to` becomes what `from` is.
  void copy(uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < blocks_each; ++i) backend_->copy_block(from * blocks_each + i, to * blocks_each + i);
    backend_->copy_state(slots[from], slots[to]);
    length[to] = length[from];
    logits[to] = logits[from];
  }

  uint32_t slots[count] = {2, 0, 4, 3}, length[count] = {};
  std::vector<float> logits[count];

 private:
  const model::Model& model_;
  model::Limits limits_;
  std::unique_ptr<model::Backend> backend_;
};

Ids some_ids(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  Ids ids;
  while (ids.size() < count) ids.push_back(uint32_t(random() % 67));
  return ids;
}

class States : public testing::TestWithParam<std::string> {
 protected:
  const Fixture fixture{GetParam()};
  const Folder folder;
  model::Model model;
  void SetUp() override {
    fixture.write(folder, fixture.config);
    model = model::load(formats::open_checkpoint(folder.path()), {.context = 96});
  }
  std::vector<float> alone(const MakeBackend& make, const Ids& ids) const {
    Sequences sequences(model, make);
    sequences.step({{0, ids}}, false);
    return sequences.logits[0];
  }
  static std::vector<MakeBackend> backends() { return {cpu::make_reference, fast(true), fast(false)}; }
};

TEST_P(States, SequencesInAnyMixGiveTheSameBits) {
  for (const MakeBackend& make : backends()) {
    std::mt19937 random(17);
    Ids ids[3];
    for (uint32_t s = 0; s < 3; ++s) ids[s] = some_ids(s, 30 + 7 * s);
    Sequences sequences(model, make);
    size_t done[3] = {};
    for (uint32_t turn = 0; done[0] < ids[0].size() || done[1] < ids[1].size() || done[2] < ids[2].size(); ++turn) {
      std::vector<Sequences::Slice> slices;
      for (uint32_t s = 0; s < 3; ++s) {
        const size_t count =
            std::min<size_t>(random() % 4 == 0 ? random() % 14 : random() % 3, ids[s].size() - done[s]);
        if (count == 0) continue;
        const auto begin = ids[s].begin() + long(done[s]);
        slices.push_back({s, {begin, begin + long(count)}});
        done[s] += count;
      }
      if (!slices.empty()) sequences.step(slices, turn % 2 == 0);
    }
    for (uint32_t s = 0; s < 3; ++s) EXPECT_EQ(sequences.logits[s], alone(make, ids[s]));
  }
}

TEST_P(States, ACopyContinuesAsTheStateItWasMadeOf) {
  for (const MakeBackend& make : backends()) {
    const Ids first = some_ids(5, 11), left = some_ids(6, 9), right = some_ids(7, 13);
    Sequences sequences(model, make);
    sequences.step({{3, some_ids(8, 5)}}, false);  // a slot that another has used
    sequences.step({{1, first}}, false);
    sequences.copy(1, 3);
    sequences.step({{1, left}, {3, right}}, true);
    const auto joined = [&](Ids more) {
      more.insert(more.begin(), first.begin(), first.end());
      return more;
    };
    EXPECT_EQ(sequences.logits[1], alone(make, joined(left)));
    EXPECT_EQ(sequences.logits[3], alone(make, joined(right)));
    // A sequence that begins anew forgets what its slot holds.
    sequences.length[1] = 0;
    sequences.logits[1].clear();
    sequences.step({{1, right}}, false);
    EXPECT_EQ(sequences.logits[1], alone(make, right));
  }
}

TEST_P(States, BytesContinueInAnotherBackend) {
  for (const MakeBackend& make : backends()) {
    const Ids first = some_ids(5, 11), more = some_ids(6, 9);
    Sequences one(model, make), other(model, make);
    one.step({{1, first}}, false);
    other.step({{2, some_ids(8, 20)}, {3, some_ids(9, 5)}}, true);
    ASSERT_EQ(one.backend().kv_layout(), other.backend().kv_layout());
    const auto move = [&](model::KvPlace from, model::KvPlace to) {
      std::vector<uint8_t> bytes(one.backend().kv_part_bytes(from.part));
      EXPECT_TRUE(!bytes.empty() || from.part == model::KvPart::block);
      const model::KvRead read{from, bytes};
      one.backend().read_kv({&read, 1});
      other.backend().write_kv(to, bytes);
    };
    for (uint32_t i = 0; i < Sequences::blocks_each; ++i)
      move({model::KvPart::block, Sequences::blocks_each + i}, {model::KvPart::block, 2 * Sequences::blocks_each + i});
    move({model::KvPart::state, one.slots[1]}, {model::KvPart::state, other.slots[2]});
    other.length[2] = one.length[1];
    other.logits[2] = one.logits[1];
    other.step({{2, more}}, false);
    Ids all = first;
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(other.logits[2], alone(make, all));
  }
}

TEST_P(States, ASlotIsOfOneSequence) {
  for (const MakeBackend& make : backends()) {
    Sequences sequences(model, make);
    sequences.slots[1] = sequences.slots[0];
    EXPECT_THROW(sequences.step({{0, {1}}, {1, {2}}}, false), std::logic_error);
    sequences.slots[1] = Sequences::count + 1;
    EXPECT_THROW(sequences.step({{1, {2}}}, false), std::logic_error);
    EXPECT_THROW(sequences.backend().copy_state(0, Sequences::count + 1), std::logic_error);
  }
}

TEST_P(States, TheReferenceKnowsWhereAStateContinues) {
  Sequences sequences(model, cpu::make_reference);
  sequences.step({{0, {1, 2, 3}}}, false);
  sequences.length[0] = 2;
  EXPECT_THROW(sequences.step({{0, {4}}}, false), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(All, States, testing::ValuesIn(Fixture::with_states(Fixture::names(), true)),
                         [](const auto& one) { return as_test_name(one.param); });

}  // namespace
}  // namespace heddle::test

// Models with recurrent states: what a prompt that begins like another has to compute, where snapshots are taken and
// when they go, and how sequences go back, wait, and are preempted.
#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::Request;
using engine::RequestId;
using engine::Speculation;
using Tokens = std::vector<uint32_t>;

constexpr uint32_t block = 8;

template <class Backend = FakeBackend>
struct States : EngineFixture<Backend> {
  explicit States(uint32_t slots, uint32_t blocks = 600,
                  engine::EngineOptions options = {.speculation = Speculation::off},
                  model::Model model = fake_model(2048))
      : EngineFixture<Backend>({.rows = 1024, .kv_blocks = blocks, .block_tokens = block, .state_slots = slots},
                               options, std::move(model)) {
    for (const uint32_t length : {10u, 300u, 900u}) {  // until it knows that there is time for long chunks
      if (length >= blocks * block) continue;
      Request request = greedy(random_tokens(length, 1000 + length), 1);
      request.reuse = false;
      this->submit(request);
      this->run();
    }
  }

  // How many rows it took, alone in the engine.
  uint64_t rows_of(const Request& request) {
    const uint64_t before = this->backend.rows;
    last = this->submit(request);
    this->run();
    EXPECT_EQ(this->metrics().slots_in_use, 0u);
    return this->backend.rows - before;
  }
  // The prompt and the answer of the last one.
  Tokens conversation() {
    Tokens all = this->requests.at(last).prompt;
    for (const uint32_t token : this->answer(last).tokens()) all.push_back(token);
    return all;
  }
  RequestId last = 0;
};

Tokens joined(Tokens text, const Tokens& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}
Tokens first_of(Tokens text, size_t count) {
  text.resize(count);
  return text;
}

template <class Backend>
void second_turn(uint32_t prompt, uint32_t answer, uint32_t more) {
  SCOPED_TRACE(fmt::format("{} tokens, an answer of {}, {} more", prompt, answer, more));
  States<Backend> fixture(8);
  EXPECT_EQ(fixture.rows_of(greedy(random_tokens(prompt, 1), answer)), prompt + answer - 1);
  const Tokens next = joined(fixture.conversation(), random_tokens(more, 2));
  const uint32_t computed = (prompt + answer - 1) / block * block;  // at the end of the last whole block
  EXPECT_EQ(fixture.rows_of(greedy(next, 1)), next.size() - computed);
  EXPECT_EQ(fixture.answer(fixture.last).cached_tokens, computed);
  EXPECT_LE(fixture.backend.rows, 3000u);
  fixture.expect_as_alone();
}
TEST(KvCacheStates, ASecondTurnComputesWhatIsNew) {
  second_turn<FakeBackend>(700, 100, 20);
  second_turn<FakeDevice>(700, 100, 20);  // where batches follow one another
  for (uint32_t answer = 30; answer < 30 + 2 * block; ++answer) second_turn<FakeDevice>(100, answer, 1);
  second_turn<FakeDevice>(33, 300, 50);
}

// The end of a block within the answer is met exactly, whatever is proposed, when the last snapshot is four blocks ago.
TEST(KvCacheStates, ASecondTurnAfterSpeculation) {
  States<> fixture(8, 600, {.speculation = Speculation::on}, fake_model(2048, 16, 3));
  fixture.rows_of(greedy(random_tokens(300, 1), 200));
  EXPECT_GT(fixture.metrics().accepted, 40u);
  EXPECT_LT(fixture.metrics().accepted, fixture.metrics().proposed);
  const Tokens next = joined(fixture.conversation(), random_tokens(20, 2));
  Request request = greedy(next, 1);
  EXPECT_LE(fixture.rows_of(request), 20u + 5 * block);
  fixture.expect_as_alone();
}

// A template ends the prompt with the beginning of the answer, which the next turn does not have.
TEST(KvCacheStates, ATurnWithAnotherAnswerBeginsNearTheEndOfThePrompt) {
  for (const uint32_t length : {696u, 697u, 700u, 703u, 704u}) {
    States<> fixture(8);
    const Tokens prompt = random_tokens(length, 1);
    fixture.rows_of(greedy(prompt, 30));
    const Tokens next = joined(first_of(prompt, length - 8), random_tokens(40, 5));
    EXPECT_LE(fixture.rows_of(greedy(next, 1)), 40u + block) << length;
    EXPECT_LE(fixture.rows_of(greedy(prompt, 1)), block + 9) << "the same prompt once more";
    fixture.expect_as_alone();
  }
}

// With fewer than eight slots none are taken within a prompt: the first one to part leaves a snapshot there.
TEST(KvCacheStates, WherePromptsPartThereIsASnapshot) {
  States<> fixture(7);
  const Tokens shared = random_tokens(300, 1);
  for (const uint64_t rows : {400u, 400u, 400u - 296u, 400u - 296u}) {
    const uint64_t found = fixture.rows_of(greedy(joined(shared, random_tokens(100, 10 + fixture.last)), 1));
    EXPECT_EQ(found, rows);
  }
  fixture.expect_as_alone();
}

TEST(KvCacheStates, ALongPromptHasSnapshotsWithin) {
  States<> fixture(64);
  const Tokens prompt = random_tokens(1900, 1);  // 238 blocks: one after each 30
  fixture.rows_of(greedy(prompt, 1));
  EXPECT_EQ(fixture.metrics().snapshots, 8u) << "after 240, 480, ... 1680, and at the end";
  EXPECT_EQ(fixture.rows_of(greedy(joined(first_of(prompt, 1000), random_tokens(50, 3)), 1)), 1050u - 960u);
  fixture.expect_as_alone();
}

TEST(KvCacheStates, EqualPromptsAreComputedOnce) {
  States<> fixture(12);
  const Tokens prompt = random_tokens(500, 1);
  const uint64_t before = fixture.backend.rows;
  for (int i = 0; i < 5; ++i) fixture.submit(greedy(prompt, 2));
  fixture.run();
  EXPECT_EQ(fixture.backend.rows - before, 500u + 4 * (500 - 488) + 5) << "488 is the last end of a block before 491";
  fixture.expect_as_alone();
}

TEST(KvCacheStates, CompletionsOfAPromptHaveCopiesOfItsState) {
  for (const uint32_t slots : {16u, 3u, 1u}) {
    States<> fixture(slots);
    Request request = seeded(random_tokens(101, 1), 10, 4);
    request.n = 6;
    const uint64_t rows = fixture.rows_of(request);
    fixture.expect_as_alone();
    if (slots < 16) continue;
    EXPECT_EQ(rows, 101u + 6 * 9);
    EXPECT_GE(fixture.backend.copied_states, 5u);
  }
}

TEST(KvCacheStates, WithoutASlotASequenceWaits) {
  States<> fixture(2);
  for (uint64_t i = 0; i < 5; ++i) fixture.submit(greedy(random_tokens(20, i), 30));
  size_t most = 0;
  while (fixture.step()) {
    most = std::max<size_t>(most, fixture.metrics().running);
    EXPECT_LE(fixture.metrics().slots_in_use, 2u);
  }
  EXPECT_EQ(most, 2u);
  EXPECT_EQ(fixture.metrics().preemptions, 0u);
  fixture.expect_as_alone();
}

// It would be the only snapshot, and its slot is the only one: no copy is made.
TEST(KvCacheStates, TheLastSnapshotGivesItsSlot) {
  States<> fixture(2);
  const Tokens prompt = random_tokens(100, 1);
  fixture.rows_of(greedy(prompt, 1));
  EXPECT_EQ(fixture.metrics().snapshots, 1u);
  const uint32_t copied = fixture.backend.copied_states;
  const auto beside = fixture.submit(seeded(random_tokens(5, 9), 40, 1));
  for (int i = 0; i < 2; ++i) fixture.step();
  const auto second = fixture.submit(greedy(joined(prompt, {1, 2, 3}), 1));
  while (fixture.answer(second).finish_reason == FinishReason::none) fixture.step();
  EXPECT_EQ(fixture.answer(beside).finish_reason, FinishReason::none);
  EXPECT_EQ(fixture.answer(second).cached_tokens, 88u);
  EXPECT_EQ(fixture.backend.copied_states, copied);
  fixture.run();
  fixture.expect_as_alone();
}

TEST(KvCacheStates, SnapshotsGoWithTheirBlocks) {
  States<> fixture(50, 60);
  for (uint64_t i = 0; i < 4; ++i) fixture.rows_of(greedy(random_tokens(100, i), 1));
  EXPECT_EQ(fixture.metrics().snapshots, 4u);
  fixture.rows_of(greedy(random_tokens(450, 9), 1));  // 57 of 60 blocks
  EXPECT_EQ(fixture.metrics().snapshots_dropped, 4u);
  EXPECT_EQ(fixture.rows_of(greedy(random_tokens(100, 3), 1)), 100u);
  fixture.expect_as_alone();
}

TEST(KvCacheStates, TheSnapshotUsedLeastRecentlyGoesFirst) {
  States<> fixture(4);
  const auto rows_of = [&](uint64_t seed) { return fixture.rows_of(greedy(random_tokens(100, seed), 1)); };
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(rows_of(i), 100u);
  EXPECT_EQ(fixture.metrics().snapshots, 3u) << "beside the slot of the sequence that runs";
  EXPECT_EQ(rows_of(1), 12u);
  EXPECT_EQ(rows_of(9), 100u);
  EXPECT_EQ(rows_of(1), 12u) << "used since";
  EXPECT_EQ(rows_of(2), 100u);
  EXPECT_EQ(rows_of(0), 100u);
  fixture.expect_as_alone();
}

TEST(KvCacheStates, NothingIsKeptOfARequestWithoutReuse) {
  for (const bool cache : {true, false}) {
    States<> fixture(8, 600, {.prefix_cache = cache, .speculation = Speculation::off});
    Request request = greedy(random_tokens(300, 1), 40);
    request.reuse = !cache;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(fixture.rows_of(request), 339u);
    EXPECT_EQ(fixture.metrics().snapshots_taken, 0u);
    EXPECT_EQ(fixture.backend.copied_states, 0u);
    fixture.expect_as_alone();
  }
}

TEST(KvCacheStates, RowsThatAreWantedAreComputed) {
  States<> fixture(8);
  const Tokens prompt = random_tokens(300, 1);
  Request scored = greedy(prompt, 20);
  scored.prompt_logprobs = 2;
  EXPECT_EQ(fixture.rows_of(scored), 319u);
  EXPECT_EQ(fixture.rows_of(scored), 319u);
  Request embedded = greedy(prompt, 20);
  embedded.embed = true;
  EXPECT_EQ(fixture.rows_of(embedded), 300u);
  uint32_t rows = 0;
  Request measured = greedy(prompt, 0);
  measured.logits_from = 290;
  measured.on_prompt_logits = [&](uint32_t position, std::span<const float>) { EXPECT_EQ(position, 290 + rows++); };
  EXPECT_EQ(fixture.rows_of(measured), 300u - 288u);
  EXPECT_EQ(rows, 10u);
  fixture.expect_as_alone();
}

// The first one needs few of the second one's blocks, so those up to the end of its prompt are still there.
TEST(KvCacheStates, APreemptedSequenceResumesFromASnapshot) {
  std::vector<uint64_t> rows;
  for (const bool cache : {true, false}) {
    States<> fixture(40, 50, {.prefix_cache = cache, .speculation = Speculation::off});
    const uint64_t before = fixture.backend.rows;
    fixture.submit(seeded(random_tokens(40, 1), 100, 1));
    fixture.submit(seeded(random_tokens(240, 2), 60, 2));
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.metrics().preemptions, 1u);
    EXPECT_EQ(fixture.metrics().snapshots_found, cache ? 1u : 0u);
    rows.push_back(fixture.backend.rows - before);
  }
  EXPECT_GE(rows[1] - rows[0], 224u);
}

// All slots are those of one client: one of its sequences makes way.
TEST(KvCacheStates, AGreedyClientGivesUpASlot) {
  States<> fixture(4);
  for (uint64_t i = 0; i < 12; ++i) {
    Request request = seeded(random_tokens(20, i), 1000, i);
    request.client = 1;
    fixture.submit(request);
  }
  for (int i = 0; i < 30; ++i) fixture.step();
  EXPECT_EQ(fixture.metrics().slots_in_use, 4u);
  Request other = greedy(random_tokens(20, 99), 5);
  other.client = 2;
  const auto id = fixture.submit(other);
  for (int i = 0; i < 12; ++i) fixture.step();
  EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::length);
  EXPECT_EQ(fixture.metrics().preemptions, 1u);
  for (const auto& [each, request] : fixture.requests) fixture.engine->cancel(each);
  fixture.run();
}

// After wrong proposals the right ones before them are computed again, with the next token.
template <class Backend>
void go_back(uint32_t slots, float repetition) {
  States<Backend> fixture(slots, 600, {.speculation = Speculation::on}, fake_model(2048, 16, repetition));
  for (uint64_t i = 0; i < 3; ++i) fixture.submit(greedy(random_tokens(40, i), 150));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.metrics().proposed > 0, slots > 3) << "a batch with proposals needs another slot";
  EXPECT_LE(fixture.metrics().accepted, fixture.metrics().proposed);
}
TEST(KvCacheStates, WrongProposalsAreTakenBack) {
  for (const float repetition : {1.f, 3.f, 8.f})
    for (const uint32_t slots : {3u, 4u, 20u}) {
      SCOPED_TRACE(fmt::format("repetition {}, {} slots", repetition, slots));
      go_back<FakeBackend>(slots, repetition);
      go_back<FakeDevice>(slots, repetition);
    }
}

TEST(KvCacheStates, ASequenceThatFailedLeavesNoSnapshot) {
  States<> fixture(8);
  const Tokens prompt = random_tokens(300, 1);
  fixture.rows_of(greedy(prompt, 1));
  EXPECT_EQ(fixture.metrics().snapshots, 1u);
  fixture.backend.fault("a fault");
  fixture.rows_of(greedy(prompt, 20));
  EXPECT_EQ(fixture.answer(fixture.last).finish_reason, FinishReason::failed);
  EXPECT_EQ(fixture.metrics().snapshots, 0u);
  const auto again = greedy(prompt, 3);
  EXPECT_EQ(fixture.rows_of(again), 302u);
  expect_same(fixture.answer(fixture.last), fixture.alone(fixture.last));
}

TEST(KvCacheStates, ACopyThatFailsFailsItsBatch) {
  States<> fixture(8);
  const Tokens prompt = random_tokens(300, 1);
  fixture.rows_of(greedy(prompt, 1));
  for (const Tokens& text : {prompt, random_tokens(300, 2)}) {  // of a snapshot that was found, and of one to be taken
    fixture.backend.copy_fault = true;
    fixture.rows_of(greedy(text, 3));
    EXPECT_EQ(fixture.answer(fixture.last).finish_reason, FinishReason::failed);
    EXPECT_EQ(fixture.answer(fixture.last).reason, "a fault of a copy");
    fixture.rows_of(greedy(text, 3));
    expect_same(fixture.answer(fixture.last), fixture.alone(fixture.last));
  }
}

// The keys of a long text are others, and so are the states after its tokens.
TEST(KvCacheStates, ATextThatBecomesLongBeginsAgain) {
  model::Model model = fake_model(2048);
  model.short_text = 120;
  States<FakeDevice> fixture(8, 600, {.speculation = Speculation::off}, model);
  EXPECT_EQ(fixture.rows_of(greedy(random_tokens(100, 1), 40)), 120u + 139u)
      << "once to the border, once from the start";
  const Tokens next = joined(fixture.conversation(), {1, 2, 3});
  EXPECT_LE(fixture.rows_of(greedy(next, 1)), 3u + 1 + block);
  fixture.expect_as_alone();
}

}  // namespace
}  // namespace heddle::test::fake

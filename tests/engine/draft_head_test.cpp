// The model's own head proposes tokens: the answers are those without it, however often it is right, and what it has in
// the cache is that of the text, whatever was reused, copied, preempted or wrong.
#include "engine/draft_head.h"

#include <gtest/gtest.h>

#include "tests/engine/simulation.h"

namespace heddle::test::fake {
namespace {

using engine::EngineOptions;
using engine::Request;
using engine::Speculation;

model::Limits slot_limits(uint32_t blocks, uint32_t slots, uint32_t block_tokens = 4, uint32_t rows = 64) {
  model::Limits limits = fake_limits(blocks, block_tokens, rows);
  limits.state_slots = slots;
  return limits;
}

template <class Backend>
struct HeadFixture : EngineFixture<Backend> {
  explicit HeadFixture(double right = 1, const EngineOptions& options = {.speculation = Speculation::on},
                       const model::Limits& limits = slot_limits(400, 40))
      : EngineFixture<Backend>(limits, options, with_head(fake_model(256))) {
    this->backend.change_predictions = wrong_logits(right, 1);
  }
  void submit_every_kind() {
    for (uint32_t i = 0; i < 7; ++i) {
      Request request = seeded(some_tokens(9 + i, i), 60, i);
      if (i % 5 == 0) request.sampling.temperature = 0;
      if (i == 1) request.sampling.top_k = 5;
      if (i == 2) request.sampling.repetition_penalty = 1.3f;
      if (i == 3) request.sampling.logprobs = 2;
      if (i == 4) request.sampling.mirostat = 2;
      if (i >= 5) request.n = 3;
      this->submit(request);
    }
  }
};

template <class Backend>
class HeadDraftTest : public ::testing::Test {};
using Backends = ::testing::Types<FakeBackend, FakeDevice>;
TYPED_TEST_SUITE(HeadDraftTest, Backends);

TYPED_TEST(HeadDraftTest, ChangesNoToken) {
  for (const double right : {0.0, 0.3, 0.8, 1.0})
    for (const Speculation speculation : {Speculation::on, Speculation::automatic})
      for (const uint32_t most : {1u, 3u, 7u}) {
        SCOPED_TRACE(fmt::format("right {}, speculation {}, {} at once", right, int(speculation), most));
        HeadFixture<TypeParam> fixture(right, {.speculation = speculation, .max_predicted = most});
        fixture.submit_every_kind();
        fixture.run();
        fixture.expect_as_alone();
        EXPECT_EQ(fixture.metrics().faults + fixture.metrics().draft_faults, 0u);
        EXPECT_GT(fixture.metrics().draft_proposed, 0u);
        EXPECT_TRUE(right < 1 || fixture.metrics().draft_accepted == fixture.metrics().draft_proposed);
      }
}

TYPED_TEST(HeadDraftTest, OneStreamTakesFewSteps) {
  HeadFixture<TypeParam> fixture(1, {.speculation = Speculation::on, .max_predicted = 4});
  fixture.submit(greedy(some_tokens(30), 101));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.metrics().draft_accepted, fixture.metrics().draft_proposed);
  EXPECT_LE(fixture.metrics().steps, 100u / 5 + 3 + 100 / 16);  // some end where a snapshot is due
  EXPECT_LE(fixture.backend.predicted_rows, 101u);
}

// Although the tokens before a wrong guess have to be computed again, it proposes in the step that does so.
TYPED_TEST(HeadDraftTest, ProposesRightAfterAWrongGuess) {
  HeadFixture<TypeParam> fixture(0.5);
  fixture.submit(greedy(some_tokens(30), 100));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GE(fixture.metrics().draft_proposed, 2 * (fixture.metrics().steps - 4));
}

TYPED_TEST(HeadDraftTest, StopsWhereItDoesNotPayAndGoesOnWhereItDoes) {
  for (const double right : {0.0, 0.95}) {
    HeadFixture<TypeParam> fixture(right, {});
    fixture.submit(greedy(some_tokens(30), 200));
    fixture.run();
    fixture.expect_as_alone();
    if (right == 0)
      EXPECT_LT(fixture.metrics().draft_proposed, 60u);
    else
      EXPECT_GT(fixture.metrics().draft_accepted, 80u);
  }
}

TYPED_TEST(HeadDraftTest, HasItsPartOfWhatTheCacheHas) {
  HeadFixture<TypeParam> fixture(0.9);
  for (const uint32_t more : {0u, 1u, 9u}) {
    std::vector<uint32_t> prompt = random_tokens(80, 1);
    for (const uint32_t token : random_tokens(more, 2)) prompt.push_back(token);
    const auto id = fixture.submit(greedy(prompt, 30));
    fixture.run();
    EXPECT_EQ(fixture.answer(id).cached_tokens > 50, more > 0);
  }
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().draft_accepted, 40u);
}

TYPED_TEST(HeadDraftTest, TakesPartInPreemption) {
  for (const uint32_t slots : {3u, 8u, 40u}) {
    HeadFixture<TypeParam> fixture(0.8, {.speculation = Speculation::on}, slot_limits(30, slots));
    for (uint32_t i = 0; i < 6; ++i) fixture.submit(seeded(random_tokens(15, i), 60, i));
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(fixture.metrics().preemptions, 0u);
    EXPECT_GT(fixture.metrics().draft_accepted, 20u);
  }
}

TYPED_TEST(HeadDraftTest, EndsWithTheLengthAndTheContext) {
  for (const uint32_t max_tokens : {0u, 1u, 2u, 3u, 17u, engine::no_limit}) {
    HeadFixture<TypeParam> fixture;
    fixture.submit(greedy(some_tokens(200), max_tokens));
    fixture.run();
    fixture.expect_as_alone();
  }
}

TYPED_TEST(HeadDraftTest, IsNotUsedWhereItIsSwitchedOff) {
  HeadFixture<TypeParam> fixture(1, {.speculation = Speculation::on, .max_predicted = 0});
  fixture.submit(greedy(some_tokens(30), 50));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.predicted_rows, 0u);
}

// Its batches follow one another on a device.
TEST(HeadDraft, RunsAheadOnADevice) {
  HeadFixture<FakeDevice> fixture(1, {.speculation = Speculation::on, .max_predicted = 6});
  for (uint32_t i = 0; i < 3; ++i) fixture.submit(seeded(some_tokens(20, i), 70, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.logits_rows, 0u);
  EXPECT_EQ(fixture.backend.dropped, 0u);
  EXPECT_GT(fixture.backend.followed * 2, fixture.backend.launched);
}

template <class Backend>
void simulate_head(uint32_t requests, uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto one_of = [&](auto... values) { return std::array{values...}[random() % sizeof...(values)]; };
  Traffic traffic{.requests = requests, .open = uint32_t(one_of(3, 12, 40)), .turns = 0.3};
  // (one after the other: compilers differ in the order of a call's arguments)
  const uint32_t block = one_of(1u, 4u, 8u), room = one_of(1u, 2u, 9u), slots = one_of(3u, 12u, 60u),
                 rows = one_of(8u, 64u, 256u);
  traffic.limits = slot_limits((traffic.longest_prompt / block + 20) * room, slots, block, rows);
  traffic.head_right = one_of(1.0, 0.9, 0.5, 0.0);
  traffic.repetition = one_of(0.0f, 0.0f, 4.0f);
  traffic.fault = one_of(0.0, 0.01);
  traffic.options.prefix_cache = one_of(true, true, false);
  traffic.options.speculation = one_of(Speculation::on, Speculation::automatic);
  traffic.options.max_predicted = one_of(1u, 3u, 8u);
  const Tally tally = Simulation<Backend>(traffic, seed).run();
  EXPECT_EQ(tally.failed > 0, traffic.fault > 0 && tally.metrics.faults > 0);
  EXPECT_GT(tally.metrics.draft_proposed, 0u);
}

TEST(HeadDraft, Simulation) {
  for (uint64_t seed = 1; seed <= 12; ++seed) simulate_head<FakeBackend>(100 / shorter, seed);
  for (uint64_t seed = 1; seed <= 12; ++seed) simulate_head<FakeDevice>(100 / shorter, seed);
}

}  // namespace
}  // namespace heddle::test::fake

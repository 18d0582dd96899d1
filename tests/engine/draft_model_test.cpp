// A second model proposes tokens: the answers are those without it, however often it is right, and it takes no more
// time and memory than it may.
#include "engine/draft_model.h"

#include <gtest/gtest.h>

#include "tests/engine/simulation.h"

namespace heddle::test::fake {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Request;
using engine::Speculation;

// How often the draft's logits are those of the model.
struct DraftOptions {
  double right = 1;
  EngineOptions engine{.speculation = Speculation::on};
  model::Limits limits = fake_limits(200);
  std::optional<model::Limits> draft_limits;  // as `limits`
  uint32_t draft_context = 256, max_proposals = 8;
  float repetition = 0;
};

template <class Backend>
struct DraftFixture : EngineFixture<Backend> {
  explicit DraftFixture(const DraftOptions& with = {})
      : EngineFixture<Backend>(with.limits, with.engine, fake_model(256, 16, with.repetition)),
        draft_model(fake_model(with.draft_context, 16, with.repetition)),
        draft(draft_model, with.draft_limits.value_or(with.limits)) {
    draft.other_clock = &this->backend.clock;
    draft.cost = {.step = 0.0005, .row = 0.00004};
    draft.change_logits = wrong_logits(with.right, 1);
    EngineOptions options = with.engine;
    options.now = [this] { return this->backend.clock; };
    options.draft = {.model = &draft_model,
                     .backend = &draft,
                     .limits = with.draft_limits.value_or(with.limits),
                     .max_proposals = with.max_proposals};
    this->engine.emplace(this->model, this->backend, this->limits, options);
  }

  model::Model draft_model;
  Backend draft;
};

// Greedy and sampled, by the device and by the host, with all that looks at the text.
std::vector<Request> requests_of_every_kind() {
  std::vector<Request> all;
  for (uint32_t i = 0; i < 7; ++i) all.push_back(seeded(some_tokens(9 + i, i), 60, i));
  all[0].sampling.temperature = all[5].sampling.temperature = 0;
  all[1].sampling.top_k = 5;
  all[2].sampling.presence_penalty = 0.5f;
  all[2].sampling.repetition_penalty = 1.3f;
  all[3].sampling.logprobs = 2;
  all[4].sampling.mirostat = 2;
  all[5].n = 3;
  all[6].n = 2;
  all[6].sampling.dry_multiplier = 0.8f;
  return all;
}

// Tokens are letters from a to p, the last one ends the text: pairs of the same letter, or a letter between a and b.
engine::Constrained pairs() {
  std::vector<std::string> texts;
  for (char c = 'a'; c < 'p'; ++c) texts.emplace_back(1, c);
  texts.emplace_back();
  grammar::Grammar g;
  const auto start = g.rule(), pair = g.rule();
  for (const std::string& text : texts)
    if (!text.empty()) g.add_choice(pair, {g.terminal(g.languages.text(text + text))});
  for (const std::string& text : texts)
    if (!text.empty()) g.add_choice(pair, {g.terminal(g.languages.text("a" + text + "b"))});
  g.add_choice(start, {pair});
  g.add_choice(start, {start, pair});
  g.set_start(start);
  auto compiled = std::make_shared<grammar::CompiledGrammar>(std::move(g));
  auto vocabulary = std::make_shared<const grammar::Vocabulary>(std::move(texts));
  return {std::make_shared<grammar::TokenMasks>(std::move(compiled), std::move(vocabulary)), {15}};
}

template <class Backend>
class DraftTest : public ::testing::Test {};
using Backends = ::testing::Types<FakeBackend, FakeDevice>;
TYPED_TEST_SUITE(DraftTest, Backends);

TYPED_TEST(DraftTest, ChangesNoToken) {
  for (const double right : {0.0, 0.3, 0.8, 1.0})
    for (const Speculation speculation : {Speculation::on, Speculation::automatic}) {
      SCOPED_TRACE(fmt::format("right {}, speculation {}", right, int(speculation)));
      DraftFixture<TypeParam> fixture({.right = right, .engine = {.speculation = speculation}});
      for (const Request& request : requests_of_every_kind()) fixture.submit(request);
      fixture.run();
      fixture.expect_as_alone();
      EXPECT_EQ(fixture.metrics().faults + fixture.metrics().draft_faults, 0u);
      EXPECT_GT(fixture.metrics().draft_proposed, 0u);
    }
}

// With the same logits and random numbers it picks what the model will pick, also where the host does.
TYPED_TEST(DraftTest, IsAlwaysRightIfItIsTheSameModel) {
  DraftFixture<TypeParam> fixture({.limits = fake_limits(400)});
  for (const Request& request : requests_of_every_kind()) fixture.submit(request);
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().draft_proposed, 400u);
  EXPECT_EQ(fixture.metrics().draft_accepted, fixture.metrics().draft_proposed);
  EXPECT_LT(fixture.metrics().steps, 20u);
}

// The draft has a recurrent state, or the model, or both: each goes back where proposals are wrong.
TYPED_TEST(DraftTest, HasStates) {
  for (const double right : {0.5, 0.9, 1.0})
    for (const auto& [slots, draft_slots] :
         std::array<std::array<uint32_t, 2>, 4>{{{0, 30}, {30, 0}, {30, 30}, {4, 5}}}) {
      SCOPED_TRACE(fmt::format("right {}, {} and {} slots", right, slots, draft_slots));
      DraftOptions with{.right = right, .limits = fake_limits(400, 32)};
      with.draft_limits = with.limits;
      with.limits.state_slots = slots;
      with.draft_limits->state_slots = draft_slots;
      DraftFixture<TypeParam> fixture(with);
      bool constrained = false;
      for (Request& request : std::vector(requests_of_every_kind())) {
        if (std::exchange(constrained, !constrained)) request.constraint = pairs();
        fixture.submit(request);
      }
      fixture.run();
      fixture.expect_as_alone();
      EXPECT_EQ(fixture.metrics().faults + fixture.metrics().draft_faults, 0u);
      EXPECT_GT(fixture.metrics().draft_accepted, draft_slots == 5 ? 20u : 50u);
      EXPECT_TRUE(right < 1 || fixture.metrics().draft_accepted == fixture.metrics().draft_proposed);
      EXPECT_EQ(fixture.draft.copied_states > 0, draft_slots > 0);
    }
}

// It needs two slots for each sequence.
TYPED_TEST(DraftTest, ProposesNothingWithoutSlots) {
  DraftOptions with{.draft_limits = fake_limits(200)};
  with.draft_limits->state_slots = 1;
  DraftFixture<TypeParam> fixture(with);
  fixture.submit(greedy(some_tokens(9), 40));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.metrics().draft_proposed, 0u);
  EXPECT_EQ(fixture.metrics().draft_faults, 0u);
}

// The draft picks among the tokens that a constraint allows.
TYPED_TEST(DraftTest, KeepsConstraints) {
  for (const double right : {0.5, 1.0}) {
    DraftFixture<TypeParam> fixture({.right = right, .limits = fake_limits(400)});
    const engine::Constrained constraint = pairs();
    for (Request& request : std::vector(requests_of_every_kind())) {
      request.constraint = constraint;
      fixture.submit(request);
    }
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.metrics().faults + fixture.metrics().draft_faults, 0u);
    EXPECT_GT(fixture.metrics().draft_accepted, 20u);
    if (right < 1) continue;
    EXPECT_EQ(fixture.metrics().draft_accepted, fixture.metrics().draft_proposed);
  }
}

TYPED_TEST(DraftTest, OneStreamTakesFewSteps) {
  DraftFixture<TypeParam> fixture({.max_proposals = 5});
  fixture.submit(greedy(some_tokens(30), 101));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.metrics().draft_proposed, fixture.metrics().draft_accepted);
  EXPECT_LE(fixture.metrics().steps, 100u / 6 + 6);  // the prompt is read in some steps, by both
  // the prompt once, and every token once, but the last of the proposals, which may be the last of the text
  EXPECT_LE(fixture.draft.rows, 30 + 101u);
}

TYPED_TEST(DraftTest, StopsWhereItDoesNotPay) {
  DraftFixture<TypeParam> fixture({.right = 0, .engine = {}});
  fixture.submit(greedy(some_tokens(30), 200));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(fixture.metrics().draft_proposed, 60u);
}

TYPED_TEST(DraftTest, GoesOnWhereItPays) {
  DraftFixture<TypeParam> fixture({.right = 0.9, .engine = {}});
  fixture.submit(greedy(some_tokens(30), 200));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().draft_accepted, 100u);
}

// The time of a row in a large batch says nothing about that of a step.
TYPED_TEST(DraftTest, StartsAfterALongPrompt) {
  DraftFixture<TypeParam> fixture(
      {.right = 0.95, .engine = {.max_stall = INFINITY}, .limits = fake_limits(200, 4, 256)});
  fixture.backend.cost = {.step = 0.0015, .row = 0.00006, .free_rows = 64};
  fixture.draft.cost = {.step = 0.0002, .row = 0.00001};
  fixture.submit(greedy(random_tokens(150, 1), 100));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().draft_accepted, 50u);
}

TYPED_TEST(DraftTest, NeverStartsIfItTakesAsLongAsTheModel) {
  DraftFixture<TypeParam> fixture({.engine = {}});
  fixture.draft.cost = fixture.backend.cost;
  fixture.submit(greedy(some_tokens(30), 200));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(fixture.metrics().draft_proposed, 10u);  // before it was timed
}

TYPED_TEST(DraftTest, LooksUpTextsThatRepeatThemselves) {
  DraftFixture<TypeParam> fixture({.right = 0.2, .engine = {}, .repetition = 9});
  fixture.submit(greedy(some_tokens(30), 200));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().accepted - fixture.metrics().draft_accepted, 100u);
}

TYPED_TEST(DraftTest, TakesPartInPreemption) {
  DraftFixture<TypeParam> fixture({.right = 0.7, .limits = fake_limits(30)});
  for (uint32_t i = 0; i < 6; ++i) fixture.submit(seeded(random_tokens(15, i), 60, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().preemptions, 0u);
  EXPECT_GT(fixture.metrics().draft_accepted, 50u);
}

TYPED_TEST(DraftTest, DoesWithoutRoom) {
  for (const uint32_t blocks : {1u, 6u, 17u, 40u}) {
    DraftFixture<TypeParam> fixture({.draft_limits = fake_limits(blocks)});
    for (uint32_t i = 0; i < 5; ++i) fixture.submit(greedy(random_tokens(20, i), 40));
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.metrics().draft_proposed > 0, blocks > 5) << blocks;
    EXPECT_EQ(fixture.metrics().draft_faults, 0u);
  }
}

TYPED_TEST(DraftTest, EndsWithItsContext) {
  DraftFixture<TypeParam> fixture({.draft_context = 50});
  fixture.submit(greedy(some_tokens(20), 100));
  const auto beyond = fixture.submit(greedy(random_tokens(60, 1), 20));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.answer(beyond).generated, 20u);
  EXPECT_GT(fixture.metrics().draft_accepted, 20u);
  EXPECT_LE(fixture.metrics().draft_accepted, 31u);
}

TYPED_TEST(DraftTest, EndsWithTheLengthAndTheContext) {
  for (uint32_t max_tokens : {0u, 1u, 2u, 3u, 17u, engine::no_limit}) {
    DraftFixture<TypeParam> fixture;
    fixture.submit(greedy(some_tokens(200), max_tokens));
    fixture.run();
    fixture.expect_as_alone();
  }
}

TYPED_TEST(DraftTest, CancelledRequestsGiveUpTheirBlocks) {
  DraftFixture<TypeParam> fixture({.right = 0.8});
  for (uint32_t i = 0; i < 4; ++i) {
    Request request = greedy(random_tokens(20, i), 100);
    request.n = 2;
    uint32_t tokens = 0;
    fixture.submit(request, [&fixture, i, tokens](const engine::Event& event) mutable {
      if (event.finish_reason == engine::FinishReason::none && ++tokens == 10 * (i + 1))
        i % 2 ? fixture.engine->cancel(event.request) : fixture.engine->finish(event.request, event.index);
    });
  }
  fixture.run();  // which checks the blocks after every step
  for (const auto& [id, completions] : fixture.answers)
    for (uint32_t i = 0; i < 2; ++i) expect_same(completions[i], fixture.alone(id, i), false);
}

TYPED_TEST(DraftTest, RequestsSurviveItsFaults) {
  for (const bool for_good : {false, true}) {
    DraftFixture<TypeParam> fixture;
    uint32_t tokens = 0;
    fixture.submit(greedy(some_tokens(20), 80), [&](const engine::Event&) {
      if (++tokens == 20) fixture.draft.fault("a fault", for_good);
    });
    fixture.submit(seeded(some_tokens(20, 2), 80, 3));
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.metrics().draft_faults, 1u);
    EXPECT_EQ(fixture.metrics().faults, 0u);
    EXPECT_EQ(fixture.metrics().draft_accepted > 80, !for_good);
    EXPECT_EQ(fixture.engine->stopped(), "");
  }
}

// Beyond its context, and after its device has failed, lookups are used as without it.
TYPED_TEST(DraftTest, LeavesTheTextToLookupsWhereItCanProposeNothing) {
  for (const bool fails : {false, true}) {
    DraftFixture<TypeParam> fixture({.draft_context = fails ? 256u : 64u, .repetition = 20});
    uint32_t tokens = 0;
    fixture.submit(greedy(some_tokens(20), 200), [&](const engine::Event&) {
      if (fails && ++tokens == 10) fixture.draft.fault("a fault", true);
    });
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(fixture.metrics().proposed, 0u) << fails;
    EXPECT_LT(fixture.metrics().draft_proposed, 70u) << fails;
  }
}

// A second row that costs a quarter of a step and more must not keep the draft from reading the prompt.
TYPED_TEST(DraftTest, ReadsThePromptOfALoneStreamWhereRowsAreExpensive) {
  DraftFixture<TypeParam> fixture({.engine = {}});
  fixture.backend.cost = {.step = 0.03, .row = 0.012};
  fixture.submit(greedy(some_tokens(30), 200));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().draft_accepted, 20u);
}

TYPED_TEST(DraftTest, ComputesACommonPromptOnce) {
  DraftFixture<TypeParam> fixture;
  Request request = greedy(some_tokens(100), 12);
  request.n = 4;
  fixture.submit(request);
  fixture.run();
  const uint64_t first = fixture.draft.rows;
  EXPECT_LT(first, 100u + 4 * 20);
  fixture.submit(request);
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(fixture.draft.rows - first, 4 * 20u);
}

// A prompt is caught up with in pieces: a stream beside it gets its tokens in time.
TYPED_TEST(DraftTest, HoldsUpNoStream) {
  DraftOptions options{.right = 0.9, .engine = {}, .limits = fake_limits(400, 16, 512)};
  DraftFixture<TypeParam> fixture(options);
  fixture.model.context = fixture.draft_model.context = 4096;
  fixture.draft.cost = {.step = 0.001, .row = 0.0002};  // a prompt of 3000 tokens takes 0.6 s
  fixture.backend.cost = {.step = 0.006, .row = 0.00005};
  EngineOptions with{.max_stall = 0.05, .now = [&] { return fixture.backend.clock; }};
  with.draft = {.model = &fixture.draft_model, .backend = &fixture.draft, .limits = options.limits};
  fixture.engine.emplace(fixture.model, fixture.backend, fixture.limits, with);
  double last = 0, longest = 0;
  fixture.submit(greedy(random_tokens(20, 1), 300), [&](const engine::Event&) {
    if (last > 0) longest = std::max(longest, fixture.backend.clock - last);
    last = fixture.backend.clock;
  });
  while (fixture.metrics().generated < 30) fixture.step();
  fixture.submit(greedy(random_tokens(3000, 2), 300));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LE(longest, 0.05);
  EXPECT_GT(fixture.draft.rows, 3000u);  // it did catch up
  EXPECT_GT(fixture.metrics().draft_accepted, 100u);
}

// A crowd of streams on a slow machine: the rows of the large model leave the draft time to catch up with all.
TYPED_TEST(DraftTest, CatchesUpWithACrowd) {
  DraftFixture<TypeParam> fixture({.limits = fake_limits(2000, 4, 256)});
  fixture.backend.cost = {.step = 0.004, .row = 0.0004};
  for (uint32_t i = 0; i < 16; ++i) fixture.submit(greedy(random_tokens(40, i), 100));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().draft_proposed, 500u);
  EXPECT_EQ(fixture.metrics().draft_accepted, fixture.metrics().draft_proposed);
}

// On a device its tokens are picked there, and its batches follow one another.
TEST(Draft, RunsAheadOnADevice) {
  DraftFixture<FakeDevice> fixture({.max_proposals = 6});
  for (uint32_t i = 0; i < 3; ++i) fixture.submit(seeded(some_tokens(20, i), 70, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.draft.logits_rows, 0u);
  EXPECT_EQ(fixture.draft.dropped, 0u);
  EXPECT_GT(fixture.draft.followed * 2, fixture.draft.launched);  // 4 or 5 of 6, once the prompts are read
}

TEST(Draft, OfAnotherVocabularyIsRefused) {
  const model::Model model = fake_model(64), other = fake_model(64, 17);
  FakeBackend backend(model, fake_limits(10)), draft(other, fake_limits(10));
  try {
    const Engine engine(model, backend, fake_limits(10),
                        {.draft = {{.model = &other, .backend = &draft, .limits = fake_limits(10)}}});
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "fake: expected a draft with the vocabulary of 16 tokens that fake has, found 17");
  }
  EXPECT_THROW(Engine(model, backend, fake_limits(10), {.draft = {{.model = &model, .backend = &draft}}}), Error);
}

// Random traffic with every event compared, as in schedule_test.cpp.
template <class Backend>
void simulate_draft(uint32_t requests, uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto one_of = [&](auto... values) { return std::array{values...}[random() % sizeof...(values)]; };
  Traffic traffic{.requests = requests, .open = uint32_t(one_of(3, 12, 40))};
  const uint32_t block = one_of(1u, 4u, 8u);
  traffic.limits =
      fake_limits((traffic.longest_prompt / block + 20) * one_of(1u, 2u, 9u), block, one_of(8u, 64u, 256u));
  traffic.draft = traffic.limits;
  traffic.draft->kv_blocks = traffic.limits.kv_blocks / one_of(1u, 1u, 3u);
  traffic.draft->rows = one_of(1u, 16u, 64u);
  traffic.draft_right = one_of(1.0, 0.9, 0.5, 0.0);
  traffic.repetition = one_of(0.0f, 0.0f, 4.0f);
  traffic.fault = one_of(0.0, 0.01);
  traffic.options.prefix_cache = one_of(true, true, false);
  traffic.options.speculation = one_of(Speculation::on, Speculation::automatic);
  const Tally tally = Simulation<Backend>(traffic, seed).run();
  EXPECT_EQ(tally.failed > 0, traffic.fault > 0 && tally.metrics.faults > 0);
}

TEST(Draft, Simulation) {
  for (uint64_t seed = 1; seed <= 12; ++seed) simulate_draft<FakeBackend>(100 / shorter, seed);
}
TEST(Draft, SimulationOnADevice) {
  for (uint64_t seed = 1; seed <= 12; ++seed) simulate_draft<FakeDevice>(100 / shorter, seed);
}
TEST(Draft, SlowSimulation) {
  for (uint64_t seed = 100; seed < 130; ++seed) {
    simulate_draft<FakeBackend>(300, seed);
    simulate_draft<FakeDevice>(300, seed);
  }
}

// Long prompts, which the draft has to read as well: no stream stalls longer than max_stall.
TEST(Draft, SlowStalls) {
  Traffic traffic{.requests = 60, .open = 4, .context = 4096, .longest_prompt = 3000, .longest_answer = 300};
  traffic.limits = {.rows = 512, .kv_blocks = 4000, .block_tokens = 16};
  traffic.draft = traffic.limits;
  traffic.draft_right = 0.8;
  for (const Cost& cost : {Cost{.step = 0.004, .row = 0.0002, .context = 4e-7, .noise = 0.1},
                           Cost{.step = 0.003, .row = 0.00004, .context = 2e-8, .noise = 0.1, .free_rows = 64}})
    for (const uint64_t seed : {1, 3, 15}) {
      traffic.cost = cost;
      const Tally tally = Simulation<>(traffic, seed).run();
      EXPECT_LE(tally.longest_gap, traffic.options.max_stall)
          << "seed " << seed << ", a row takes " << cost.row << " s";
      EXPECT_GT(tally.metrics.draft_accepted, 0u);
    }
}

}  // namespace
}  // namespace heddle::test::fake

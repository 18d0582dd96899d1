// What the engine guarantees to one request, and to several at once: results, ends, cancellation, faults.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/engine/engine_fixture.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::no_limit;
using engine::Request;

std::string refusal(EngineFixture<>& fixture, const Request& request) {
  try {
    fixture.submit(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Engine, OneRequestAlone) {
  EngineFixture<> fixture(fake_limits(64));
  const auto id = fixture.submit(seeded(some_tokens(10), 7, 3));
  EXPECT_FALSE(fixture.engine->idle());
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::length);
  EXPECT_EQ(fixture.answer(id).prompt, 10u);
  EXPECT_EQ(fixture.answer(id).generated, 7u);
  EXPECT_EQ(fixture.answer(id).cached_tokens, 0u);
  EXPECT_EQ(fixture.backend.rows, 16u) << "a prompt of 10, and all of 7 tokens but the last";
  EXPECT_FALSE(fixture.step()) << "nothing is left to do";
}

TEST(Engine, ManyAtOnceAreComputedTogether) {
  EngineFixture<> fixture(fake_limits(64));
  for (uint32_t i = 0; i < 8; ++i) fixture.submit(seeded(some_tokens(3, i), 10, i));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_LT(fixture.backend.batches, 16u);
}

TEST(Engine, TheReceiverOfAnEndFindsItCounted) {
  EngineFixture<> fixture(fake_limits(64));
  for (uint32_t i = 0; i < 3; ++i)
    fixture.submit(seeded(some_tokens(3, i), 5 + i, i), [&, left = 2 - i](const engine::Event& event) {
      if (event.finish_reason == FinishReason::none) return;
      EXPECT_EQ(fixture.metrics().running, left);
      EXPECT_EQ(fixture.metrics().blocks_in_use > 0, left > 0);
      EXPECT_EQ(fixture.metrics().finished[size_t(FinishReason::length)], 3u - left);
    });
  fixture.run();
}

TEST(Engine, ASingleTokenIsAPrompt) {
  EngineFixture<> fixture(fake_limits(64));
  fixture.submit(greedy({5}, 1));
  fixture.submit(greedy({5}, 3));
  fixture.run();
  fixture.expect_as_alone();
}

TEST(Engine, EndsByStopLengthAndContext) {
  EngineFixture<> fixture(fake_limits(64), {}, fake_model(30));
  const auto full = fixture.submit(greedy(some_tokens(9), no_limit));
  fixture.run();
  EXPECT_EQ(fixture.answer(full).finish_reason, FinishReason::context);
  EXPECT_EQ(fixture.answer(full).generated, 22u) << "the last token takes no position";
  const auto tokens = fixture.answer(full).tokens();
  Request request = greedy(some_tokens(9), 15);
  request.stops = {{tokens[5], tokens[5] ^ 1}, {tokens[3], tokens[4]}};
  const auto stopped = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(fixture.answer(stopped).finish_reason, FinishReason::stop);
  EXPECT_EQ(fixture.answer(stopped).generated, 5u) << "the stop sequence itself is emitted";
  request.stops = {{some_tokens(9).back(), tokens[0]}};
  const auto across = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(fixture.answer(across).generated, 15u) << "a stop does not begin in the prompt";
  fixture.expect_as_alone();
}

TEST(Engine, LogprobsAreThoseOfTheRequest) {
  EngineFixture<> fixture(fake_limits(64));
  Request request = seeded(some_tokens(6), 5, 1);
  fixture.submit(request);
  request.sampling.logprobs = 3;
  const auto with = fixture.submit(request);
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.answer(with).picks[0].top.size(), 3u);
}

TEST(Engine, RefusesInvalidRequests) {
  EngineFixture<> fixture(fake_limits(5));
  EXPECT_EQ(refusal(fixture, greedy({}, 3)), "expected a prompt, found none");
  EXPECT_EQ(refusal(fixture, greedy({1, 16}, 3)),
            "expected tokens below 16, the size of the vocabulary, found 16 in the prompt");
  EXPECT_EQ(refusal(fixture, greedy(some_tokens(20), 3)),
            "the prompt is too long: expected fewer than 20 tokens, the capacity of the KV cache, found 20");
  Request request = greedy(some_tokens(3), 3);
  request.n = 0;
  EXPECT_EQ(refusal(fixture, request), "expected 1 to 1024 completions, found 0");
  request.n = 1;
  request.stops = {{1}, {}};
  EXPECT_EQ(refusal(fixture, request), "expected at least one token in a stop sequence, found none");
  request.stops.clear();
  request.sampling.top_p = 2;
  EXPECT_NE(refusal(fixture, request).find("top_p"), std::string::npos);
  EXPECT_EQ(fixture.metrics().refused, 6u);
  EXPECT_EQ(fixture.metrics().submitted, 0u);
  EXPECT_TRUE(fixture.engine->idle());

  EngineFixture<> short_context(fake_limits(50), {}, fake_model(12));
  EXPECT_EQ(refusal(short_context, greedy(some_tokens(12), 1)),
            "the prompt is too long: expected fewer than 12 tokens, the model's context, found 12");
}

TEST(Engine, RefusesLimitsThatAreTooSmall) {
  const model::Model model = fake_model(16);
  FakeBackend backend(model, fake_limits(1));
  EXPECT_THROW(engine::Engine(model, backend, fake_limits(0)), Error);
  EXPECT_THROW(engine::Engine(model, backend, fake_limits(4, 4, 1)), Error);
  EXPECT_THROW(engine::Engine(model, backend, fake_limits(4), {.max_stall = 0}), Error);
}

TEST(Engine, IsBusyWhenTooManyWait) {
  EngineFixture<> fixture(fake_limits(64), {.max_waiting = 2});
  fixture.submit(greedy(some_tokens(3), 3));
  fixture.submit(greedy(some_tokens(3), 3));
  try {
    fixture.submit(greedy(some_tokens(3), 3));
    FAIL() << "it was not refused";
  } catch (const engine::Busy& busy) {
    EXPECT_STREQ(busy.what(), "2 sequences are waiting, the limit is 2: try again later");
  }
  fixture.step();
  fixture.submit(greedy(some_tokens(3), 3));
  fixture.run();
  fixture.expect_as_alone();
}

// A request has as many sequences as completions. A client that has filled the queue does not fill it for others.
TEST(Engine, CountsTheSequencesOfEachClientThatWait) {
  EngineFixture<> fixture(fake_limits(64), {.max_waiting = 10});
  const auto ask = [&](uint64_t client, uint32_t n) {
    engine::Request request = greedy(some_tokens(3), 3);
    request.client = client;
    request.n = n;
    fixture.submit(request);
  };
  ask(1, 12);  // nothing waits: any request is taken
  EXPECT_THROW(ask(1, 1), engine::Busy);
  EXPECT_THROW(ask(2, 6), engine::Busy);  // two clients: 5 each
  ask(2, 5);
  EXPECT_THROW(ask(2, 1), engine::Busy);
  ask(3, 3);  // three: 3 each
  EXPECT_THROW(ask(3, 1), engine::Busy);
  EXPECT_EQ(fixture.engine->queue().all, 20u);
  EXPECT_EQ(fixture.engine->queue().of_client.at(2), 5u);
  fixture.run();
  EXPECT_EQ(fixture.engine->queue().all, 0u);
  ask(1, 7);
  ask(1, 3);
  EXPECT_THROW(ask(1, 1), engine::Busy);
  fixture.run();
  fixture.expect_as_alone();
}

TEST(Engine, CancelsInEveryState) {
  EngineFixture<> fixture(fake_limits(64, 4, 8));
  const auto queued = fixture.submit(greedy(some_tokens(40, 1), 9));
  fixture.engine->cancel(queued);
  EXPECT_TRUE(fixture.answer(queued).reason.empty()) << "the event comes in the next step";
  fixture.step();
  EXPECT_EQ(fixture.answer(queued).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.answer(queued).reason, "cancelled");
  EXPECT_EQ(fixture.backend.rows, 0u);

  const auto prompt = fixture.submit(greedy(some_tokens(40, 2), 9));
  fixture.step();
  fixture.engine->cancel(prompt);
  fixture.engine->cancel(prompt);
  fixture.step();
  EXPECT_EQ(fixture.answer(prompt).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.backend.rows, 8u);

  const auto generating = fixture.submit(greedy(some_tokens(4, 3), 9));
  for (int i = 0; i < 3; ++i) fixture.step();
  fixture.engine->cancel(generating);
  fixture.run();
  EXPECT_EQ(fixture.answer(generating).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.answer(generating).generated, 3u);
  fixture.engine->cancel(generating);
  fixture.engine->cancel(12345);
  EXPECT_FALSE(fixture.step());
  EXPECT_EQ(fixture.metrics().finished[size_t(FinishReason::cancelled)], 3u);
}

TEST(Engine, FinishesOneCompletionAndTheOthersGoOn) {
  EngineFixture<> fixture(fake_limits(64));
  engine::Request request = seeded(some_tokens(9), 12, 3);
  request.n = 4;
  engine::RequestId id = 0;
  id = fixture.submit(request, [&](const engine::Event& event) {
    if (event.finish_reason != FinishReason::none) return;
    for (const uint32_t index : {0u, 2u})
      if (event.index == index && fixture.answer(id, index).picks.size() == 5) fixture.engine->finish(id, index);
  });
  fixture.engine->finish(id, 1);
  fixture.step();
  fixture.engine->finish(id, 4);
  fixture.run();
  for (uint32_t index = 0; index < 4; ++index) {
    if (index % 2 == 1) {
      expect_same(fixture.answer(id, index), fixture.alone(id, index));
      continue;
    }
    EXPECT_EQ(fixture.answer(id, index).finish_reason, FinishReason::stop);
    EXPECT_EQ(fixture.answer(id, index).generated, 5u);
  }
  EXPECT_EQ(fixture.metrics().finished[size_t(FinishReason::stop)], 2u);
}

TEST(Engine, ACallbackMayCancelItselfAndOthersAndSubmit) {
  EngineFixture<> fixture(fake_limits(64));
  engine::RequestId other = 0, own = 0, late = 0;
  other = fixture.submit(greedy(some_tokens(5, 2), 50));
  own = fixture.submit(greedy(some_tokens(5), 50), [&](const engine::Event& event) {
    if (event.finish_reason != FinishReason::none || fixture.answer(own).picks.size() != 3) return;
    fixture.engine->cancel(other);
    fixture.engine->cancel(own);
    late = fixture.submit(greedy(some_tokens(5, 3), 4));
  });
  fixture.run();
  EXPECT_EQ(fixture.answer(own).generated, 3u);
  EXPECT_EQ(fixture.answer(own).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.answer(other).finish_reason, FinishReason::cancelled);
  expect_same(fixture.answer(late), fixture.alone(late));
}

TEST(Engine, ACallbackThatThrowsEndsItsOwnRequestOnly) {
  EngineFixture<> fixture(fake_limits(64));
  const auto healthy = fixture.submit(greedy(some_tokens(5, 2), 20));
  const auto bad = fixture.submit(greedy(some_tokens(5), 20), [](const engine::Event& event) {
    if (event.finish_reason == FinishReason::none) throw std::runtime_error("the line is closed");
    throw 5;
  });
  const auto odd = fixture.submit(greedy(some_tokens(5), 20), [](const engine::Event&) { throw 5; });
  fixture.run();
  EXPECT_EQ(fixture.answer(bad).finish_reason, FinishReason::cancelled);
  EXPECT_EQ(fixture.answer(bad).reason, "its callback threw: the line is closed");
  EXPECT_EQ(fixture.answer(bad).generated, 1u);
  EXPECT_EQ(fixture.answer(odd).reason, "its callback threw something other than an exception");
  expect_same(fixture.answer(healthy), fixture.alone(healthy));
}

TEST(Engine, CompletionsShareTheirPrompt) {
  for (const uint32_t prompt : {10u, 12u}) {  // with a block that is not whole, and without
    EngineFixture<> fixture(fake_limits(64));
    Request request = seeded(some_tokens(prompt), 9, 77);
    request.n = 4;
    const auto id = fixture.submit(request);
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_NE(fixture.answer(id, 0).tokens(), fixture.answer(id, 1).tokens());
    EXPECT_EQ(fixture.backend.rows, prompt + 4 * 8);
    EXPECT_EQ(fixture.backend.copied, prompt % 4 ? 3u : 0u);
    EXPECT_EQ(fixture.answer(id, 0).cached_tokens, 0u);
    EXPECT_EQ(fixture.answer(id, 3).cached_tokens, prompt);
  }
}

TEST(Engine, CompletionsWithoutABlockComeLater) {
  for (const bool reuse : {true, false}) {
    EngineFixture<> fixture(fake_limits(6), {.prefix_cache = reuse});
    Request request = seeded(some_tokens(10), 8, 5);
    request.n = 5;
    fixture.submit(request);
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_GT(fixture.backend.batches, 9u) << "not all of them ran at the same time";
  }
}

TEST(Engine, ReportsThePromptProgress) {
  EngineFixture<> fixture(fake_limits(64));
  const auto id = fixture.submit(greedy(random_tokens(150, 1), 3));
  EXPECT_EQ(fixture.engine->prompt_progress(id), 0u);
  uint32_t last = 0;
  while (fixture.answer(id).picks.empty()) {
    fixture.step();
    const uint32_t now = fixture.engine->prompt_progress(id);
    EXPECT_GT(now, last);
    EXPECT_EQ(now, std::min<uint64_t>(fixture.backend.rows, 150));
    last = now;
  }
  EXPECT_EQ(last, 150u);
  fixture.run();
  EXPECT_EQ(fixture.engine->prompt_progress(id), 0u);
  EXPECT_EQ(fixture.engine->prompt_progress(99), 0u);
}

TEST(Engine, TheLastEventCountsComputedPromptTokens) {
  EngineFixture<> fixture(fake_limits(64));
  std::vector<engine::Event> ends;
  const auto note_end = [&](const engine::Event& event) {
    if (event.finish_reason != FinishReason::none) ends.push_back(event);
  };
  Request two = greedy(random_tokens(50, 1), 3);
  two.n = 2;
  fixture.submit(two, note_end);
  fixture.run();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].computed_tokens, 50u);
  EXPECT_EQ(ends[0].cached_tokens, 0u);
  EXPECT_EQ(ends[1].computed_tokens, 0u);
  EXPECT_EQ(ends[1].cached_tokens, 50u);
  fixture.submit(greedy(random_tokens(50, 1), 3), note_end);
  fixture.run();
  EXPECT_EQ(ends[2].computed_tokens + ends[2].cached_tokens, 50u);
  EXPECT_GE(ends[2].cached_tokens, 48u);
  // cancelled within the prompt: only what was done counts
  const auto cancelled = fixture.submit(greedy(random_tokens(200, 2), 3), note_end);
  const uint64_t rows = fixture.backend.rows;
  fixture.step();
  fixture.engine->cancel(cancelled);
  fixture.run();
  EXPECT_EQ(ends[3].finish_reason, FinishReason::cancelled);
  EXPECT_EQ(ends[3].computed_tokens, fixture.backend.rows - rows);
  EXPECT_LT(ends[3].computed_tokens, 200u);
  EXPECT_EQ(ends[3].cached_tokens, 0u);
}

TEST(Engine, PromptsAreNotCutIfTheStallIsUnlimited) {
  EngineFixture<> fixture(fake_limits(64, 4, 128), {.max_stall = INFINITY});
  fixture.submit(greedy(random_tokens(128 + 100, 1), 2));
  EXPECT_EQ(fixture.run(), 3u);
  EXPECT_EQ(fixture.backend.batches, 3u) << "128, 100 and a token";
  fixture.expect_as_alone();
}

TEST(Engine, AFaultFailsTheRequestsOfTheBatch) {
  EngineFixture<> fixture(fake_limits(64, 4, 16));
  const auto a = fixture.submit(greedy(some_tokens(10, 1), 20));
  fixture.step();
  fixture.step();
  fixture.backend.fault("the bus fell off");
  const auto waits = fixture.submit(greedy(some_tokens(10, 1), 5));
  const auto b = fixture.submit(greedy(some_tokens(40, 2), 5));
  fixture.step();
  EXPECT_EQ(fixture.answer(a).finish_reason, FinishReason::failed);
  EXPECT_EQ(fixture.answer(a).reason, "the bus fell off");
  EXPECT_EQ(fixture.metrics().blocks_cached, 0u) << "none of its blocks can be found";
  EXPECT_EQ(fixture.metrics().faults, 1u);
  fixture.run();
  for (const auto id : {waits, b})
    if (fixture.answer(id).finish_reason != FinishReason::failed) expect_same(fixture.answer(id), fixture.alone(id));
  const auto after = fixture.submit(greedy(some_tokens(10, 1), 20));
  fixture.run();
  expect_same(fixture.answer(after), fixture.alone(after));
  EXPECT_EQ(fixture.engine->stopped(), "");
}

TEST(Engine, StopsWhenTheBackendIsLost) {
  EngineFixture<> fixture(fake_limits(64, 4, 4));
  const auto a = fixture.submit(greedy(some_tokens(20, 1), 20));
  const auto queued = fixture.submit(greedy(some_tokens(10, 3), 20));
  fixture.step();
  fixture.backend.fault("the device is gone", true);
  EXPECT_TRUE(fixture.step());
  for (const auto id : {a, queued}) {
    EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::failed);
    EXPECT_EQ(fixture.answer(id).reason, "the device is gone");
  }
  EXPECT_EQ(fixture.engine->stopped(), "the device is gone");
  EXPECT_TRUE(fixture.engine->idle());
  EXPECT_FALSE(fixture.step());
  EXPECT_EQ(refusal(fixture, greedy(some_tokens(3), 1)), "the device is gone");
}

TEST(Engine, ARequestWithoutAPossibleTokenFailsAlone) {
  EngineFixture<> fixture(fake_limits(64));
  Request banned = greedy(some_tokens(5), 5);
  for (uint32_t i = 0; i < 16; ++i) banned.sampling.logit_bias[i] = -INFINITY;
  banned.n = 2;
  const auto bad = fixture.submit(banned);
  const auto good = fixture.submit(greedy(some_tokens(5), 5));
  fixture.run();
  EXPECT_EQ(fixture.answer(bad, 0).finish_reason, FinishReason::failed);
  EXPECT_EQ(fixture.answer(bad, 1).finish_reason, FinishReason::failed);
  EXPECT_FALSE(fixture.answer(bad).reason.empty());
  expect_same(fixture.answer(good), fixture.alone(good));
}

TEST(Engine, FailedCompletionsLeaveOthersTheirLogits) {
  for (uint64_t seed = 1; seed < 11; ++seed) {
    EngineFixture<> fixture(fake_limits(200), {.speculation = engine::Speculation::off});
    Request three = seeded(some_tokens(5), 30, seed);
    three.n = 3;
    const auto bad = fixture.submit(three);
    const auto good = fixture.submit(seeded(some_tokens(5, 2), 30, seed + 100));
    for (int i = 0; i < 8; ++i) fixture.step();
    bool once = true;
    fixture.backend.change_logits = [&](std::span<float> logits) {
      if (std::exchange(once, false)) logits[0] = NAN;
    };
    fixture.run();
    for (uint32_t index = 0; index < 3; ++index)
      EXPECT_EQ(fixture.answer(bad, index).finish_reason, FinishReason::failed);
    expect_same(fixture.answer(good), fixture.alone(good));
  }
}

}  // namespace
}  // namespace heddle::test::fake

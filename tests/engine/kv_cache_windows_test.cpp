// Models with windows: how many blocks a text holds, what a prompt that begins like another has to compute, and that
// answers are those of one block table.
#include <gtest/gtest.h>

#include "cpu/cpu.h"
#include "formats/checkpoint.h"
#include "model/load.h"
#include "tests/engine/engine_fixture.h"
#include "tests/model/fixture.h"
#include "tests/support/refused.h"

namespace heddle::test::fake {
namespace {

using engine::Request;
using engine::Speculation;
using Tokens = std::vector<uint32_t>;

constexpr uint32_t tokens_of_block = 4, window = 24, rows_of_batch = 32;
constexpr uint32_t least_windows =
    (window + rows_of_batch) / tokens_of_block + 1;        // with which one sequence always fits
constexpr uint32_t in_use = window / tokens_of_block + 2;  // between two batches

template <class Backend = FakeBackend>
struct Windowed : EngineFixture<Backend> {
  explicit Windowed(uint32_t windows, uint32_t blocks = 1000,
                    engine::EngineOptions options = {.speculation = Speculation::off},
                    model::Model model = with_window(fake_model(2048), window))
      : EngineFixture<Backend>(
            {.rows = rows_of_batch, .kv_blocks = blocks, .block_tokens = tokens_of_block, .window_blocks = windows},
            options, std::move(model)) {}

  // How many rows it took, alone in the engine.
  uint64_t rows_of(const Request& request) {
    const uint64_t before = this->backend.rows;
    last = this->submit(request);
    this->run();
    EXPECT_EQ(this->metrics().windows_in_use, 0u);
    expect_same(this->answer(last), this->alone(last));
    return this->backend.rows - before;
  }
  // The prompt and the answer of the last one, and something new.
  Tokens next_turn(uint32_t more) {
    Tokens all = this->requests.at(last).prompt;
    for (const uint32_t token : this->answer(last).tokens()) all.push_back(token);
    const Tokens next = random_tokens(more, 99);
    all.insert(all.end(), next.begin(), next.end());
    return all;
  }
  engine::RequestId last = 0;
};

template <class Backend>
void holds_its_window(bool reuse) {
  Windowed<Backend> fixture(least_windows);
  Request request = greedy(random_tokens(900, 1), 300);
  request.reuse = reuse;
  const auto id = fixture.submit(request);
  uint64_t most = 0;
  while (fixture.step()) {
    most = std::max(most, fixture.metrics().windows_in_use);
    ASSERT_LE(fixture.metrics().windows_in_use, least_windows);
  }
  EXPECT_GE(most, window / tokens_of_block);
  expect_same(fixture.answer(id), fixture.alone(id));
}
TEST(KvCacheWindows, ATextHoldsWhatItsNextTokenSees) {
  for (const bool reuse : {true, false}) {
    holds_its_window<FakeBackend>(reuse);
    holds_its_window<FakeDevice>(reuse);
  }
}

TEST(KvCacheWindows, ManyTextsRunAtOnce) {
  Windowed<> fixture(20 * in_use + rows_of_batch / tokens_of_block);
  for (uint64_t i = 0; i < 12; ++i) fixture.submit(greedy(random_tokens(150, i), 60));
  uint64_t together = 0;
  while (fixture.step()) together = std::max(together, fixture.metrics().running);
  EXPECT_EQ(together, 12u);
  EXPECT_EQ(fixture.metrics().preemptions, 0u);
  fixture.expect_as_alone();
}

// With fewer blocks of windows than all need, the later ones wait or begin again.
TEST(KvCacheWindows, TextsWaitForBlocksOfWindows) {
  for (const uint32_t windows : {least_windows, least_windows + in_use, 3 * least_windows}) {
    Windowed<> fixture(windows);
    for (uint64_t i = 0; i < 8; ++i) fixture.submit(greedy(random_tokens(100, i), 40));
    fixture.run();
    fixture.expect_as_alone();
  }
}

template <class Backend>
void second_turn_with_window(uint32_t prompt, uint32_t answer, uint32_t more) {
  SCOPED_TRACE(fmt::format("{} tokens, an answer of {}, {} more", prompt, answer, more));
  Windowed<Backend> fixture(least_windows + 8);
  EXPECT_EQ(fixture.rows_of(greedy(random_tokens(prompt, 1), answer)), prompt + answer - 1);
  const Tokens next = fixture.next_turn(more);
  fixture.rows_of(greedy(next, 1));
  EXPECT_EQ(fixture.answer(fixture.last).cached_tokens, prompt + answer - 1) << "the last block is copied";
}
TEST(KvCacheWindows, ASecondTurnComputesWhatIsNew) {
  second_turn_with_window<FakeBackend>(700, 102, 20);
  second_turn_with_window<FakeDevice>(700, 102, 20);
  second_turn_with_window<FakeDevice>(9, 301, 50);
}

// The next turn has another answer, as where a template leaves thoughts out: what a token at the end of the prompt saw
// is still there, however long the answer was.
TEST(KvCacheWindows, TheEndOfAPromptIsKept) {
  Windowed<> fixture(least_windows + 10);
  const Tokens prompt = random_tokens(203, 1);
  fixture.rows_of(greedy(prompt, 700));
  Tokens next = prompt;
  next.resize(195);  // the template began the answer otherwise
  for (const uint32_t token : random_tokens(60, 7)) next.push_back(token);
  EXPECT_LE(fixture.rows_of(greedy(next, 1)), 60u + tokens_of_block);
  EXPECT_GE(fixture.answer(fixture.last).cached_tokens, 192u);
}

// The second prompt finds the blocks of the beginning, but not what a window has of them; the third finds both.
TEST(KvCacheWindows, WhatTwoTextsBeginWithIsKept) {
  Windowed<> fixture(least_windows + 10);
  const Tokens beginning = random_tokens(200, 1);
  const auto text = [&](uint64_t seed) {
    Tokens all = beginning;
    for (const uint32_t token : random_tokens(300, seed)) all.push_back(token);
    return greedy(all, 100);
  };
  EXPECT_EQ(fixture.rows_of(text(2)), 599u);
  EXPECT_GT(fixture.rows_of(text(3)), 399u) << "no window at the end of the beginning";
  EXPECT_LE(fixture.rows_of(text(4)), 399u + tokens_of_block);
  EXPECT_LE(fixture.rows_of(text(5)), 399u + tokens_of_block);
}

TEST(KvCacheWindows, ALongCacheFindsEveryBeginning) {
  Windowed<> fixture(1000);
  const Tokens prompt = random_tokens(400, 1);
  EXPECT_EQ(fixture.rows_of(greedy(prompt, 1)), 400u);
  for (const uint32_t length : {40u, 161u, 222u, 399u}) {
    Tokens other(prompt.begin(), prompt.begin() + length);
    for (const uint32_t token : random_tokens(20, length)) other.push_back(token);
    EXPECT_LE(fixture.rows_of(greedy(other, 1)), 20u + tokens_of_block);
  }
}

TEST(KvCacheWindows, CompletionsShareThem) {
  for (const uint32_t length : {30u, 100u, 101u, 103u}) {
    Windowed<FakeDevice> fixture(80);
    Request request = seeded(random_tokens(length, 3), 60, 5);
    request.n = 4;
    fixture.submit(request);
    fixture.run();
    fixture.expect_as_alone();
    EXPECT_EQ(fixture.backend.copied_windows, fixture.backend.copied);
    EXPECT_EQ(fixture.backend.copied_windows > 0, length % tokens_of_block != 0);
  }
}

TEST(KvCacheWindows, ChunksGiveTheirBlocksBackTogether) {
  Windowed<FakeDevice> fixture(least_windows + 10, 1000, {.speculation = Speculation::on},
                               with_window(fake_model(2048, 16, 3), 0, 20));
  for (uint64_t i = 0; i < 3; ++i) fixture.submit(greedy(random_tokens(100 + uint32_t(i), i), 200));
  fixture.run();
  fixture.expect_as_alone();
}

TEST(KvCacheWindows, AFaultLeavesNoneBehind) {
  Windowed<> fixture(100);
  const Tokens prompt = random_tokens(300, 1);
  fixture.rows_of(greedy(prompt, 1));
  EXPECT_GT(fixture.metrics().windows_cached, 0u);
  fixture.backend.fault("a fault");
  fixture.submit(greedy(prompt, 20));
  fixture.run();
  EXPECT_EQ(fixture.metrics().windows_cached, 1u) << "its last block was a copy of that of the first";
  EXPECT_EQ(fixture.rows_of(greedy(prompt, 3)), 302u);
}

TEST(KvCacheWindows, TooFewAreRefused) {
  EXPECT_EQ(heddle::test::refusal([] { Windowed<> fixture(least_windows - 1); }),
            fmt::format("expected at least {} blocks of windows for batches of 32 rows, found {}", least_windows,
                        least_windows - 1));
  Windowed<> fixture(10, 10);  // one for each other block is always enough
  fixture.rows_of(greedy(random_tokens(20, 1), 10));
}

// Six requests, of which some begin alike, at once and with few blocks, against each alone with one block table.
TEST(KvCacheWindows, ModelsAnswerAsWithOneTable) {
  for (const char* name : {"gemma3", "gpt-oss", "gemma4", "gemma3n", "mistral", "phi3-window", "llama4-chunks"})
    for (const model::KvFormat kv : {model::KvFormat::f16, model::KvFormat::q8}) {
      SCOPED_TRACE(name);
      const Fixture fixture(name);
      const Folder folder;
      fixture.write(folder, fixture.config);
      const model::Model model = model::load(formats::open_checkpoint(folder.path()), {.context = fixture.context});
      model::Limits limits{.rows = 12, .kv_blocks = 60, .block_tokens = 4, .kv = kv};
      std::vector<Request> requests;
      for (uint32_t i = 0; i < 6; ++i) {
        Request& request = requests.emplace_back(greedy(fixture.ids, 64 - uint32_t(fixture.ids.size())));
        if (i >= 3) request.prompt[4 * i - 1] = i;
        request.sampling.temperature = i % 2 ? 0.7f : 0;
        request.sampling.seed = i;
        request.sampling.logprobs = 2;
      }
      const auto answers = [&](model::Backend& backend, const std::vector<Request>& all) {
        engine::Engine engine(model, backend, limits, {.max_stall = 0.01});
        std::vector<std::vector<engine::Pick>> picks(all.size());
        for (size_t i = 0; i < all.size(); ++i)
          engine.submit(all[i], [&picks, i](const engine::Event& event) {
            if (event.finish_reason == engine::FinishReason::none) picks[i].push_back(event.pick);
          });
        while (engine.step()) engine.check_invariants();
        return picks;
      };
      std::vector<std::vector<engine::Pick>> alone;
      for (const Request& request : requests) {
        const auto backend = cpu::make_cpu(model, limits, {.threads = 1});
        alone.push_back(answers(*backend, {request})[0]);
        EXPECT_GE(alone.back().size(), 30u);
      }
      limits.window_blocks = 14;
      const auto backend = cpu::make_cpu(model, limits, {.threads = 1});
      const auto together = answers(*backend, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        ASSERT_EQ(together[i].size(), alone[i].size());
        expect_same(together[i], alone[i]);
      }
    }
}

}  // namespace
}  // namespace heddle::test::fake

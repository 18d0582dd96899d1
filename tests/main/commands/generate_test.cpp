// Prompts, texts and their ends, on weft: greedy, so that what it says is known; on the CPU and on a device that picks.
#include "main/commands/generate.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "main/chat/conversation.h"
#include "main/process.h"
#include "model/session.h"
#include "tests/main/small_model.h"
#include "tests/support/backends.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using text::TokenId;
using End = Generated::End;

constexpr const char* greeting = "Hello! I can tell you a little story, or say what heddle is.";

struct Generating : testing::Test {
  std::unique_ptr<RunningModel> running = open_running(weft, {.device = "cpu"});
  Generator generator{*running};
  GenerateRequest request{.sampling = {.temperature = 0}};

  std::vector<TokenId> ids(const std::vector<Message>& messages) const { return chat_ids(*running, messages, 0); }
  std::vector<TokenId> hi() const { return ids({{"user", "hi"}}); }
};

TEST_F(Generating, UntilTheModelEnds) {
  std::string shown;
  size_t picks = 0;
  request.show = [&](std::string_view text) { shown += text; };
  request.picked = [&](const engine::Pick&) { ++picks; };
  const Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, greeting);
  EXPECT_EQ(shown, greeting);
  EXPECT_EQ(generated.end, End::end_token);
  EXPECT_EQ(generated.prompt, 6u);
  EXPECT_EQ(generated.computed, 6u);
  EXPECT_EQ(generated.generated, 17u);
  EXPECT_EQ(picks, 17u);
  expect_says(figures(generated), {"prompt 6 tokens, ", "generated 17 tokens", "(the model ended)"});
}

TEST_F(Generating, ASecondTurnComputesOnlyWhatIsNew) {
  const Generated first = generator.generate(hi(), request);
  const std::vector<TokenId> prompt = ids({{"user", "hi"}, {"assistant", first.text}, {"user", "What is heddle?"}});
  const Generated second = generator.generate(prompt, request);
  // all of the first turn but the token that ended it, which was picked and not computed
  EXPECT_EQ(second.cached, first.prompt + first.generated - 1);
  EXPECT_EQ(second.computed, prompt.size() - second.cached);
  expect_says(figures(second), {"(22 cached), "});
  const auto another = open_running(weft, {.device = "cpu"});
  Generator fresh(*another);
  const Generated alone = fresh.generate(prompt, request);
  EXPECT_EQ(alone.computed, prompt.size());
  EXPECT_EQ(second.text, alone.text);
  EXPECT_EQ(generator.length(), fresh.length());

  // the same again: the last token is computed for its logits
  EXPECT_EQ(generator.generate(prompt, request).computed, 1u);
  EXPECT_EQ(generator.generate(hi(), request).text, greeting);
}

TEST_F(Generating, StopStringsAndLimits) {
  request.stop_strings = {"tell you", "never said"};  // across tokens
  Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello! I can ");
  EXPECT_EQ(generated.end, End::stop_string);
  request.stop_strings.clear();
  request.max_tokens = 2;
  generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello!");
  EXPECT_EQ(generated.generated, 2u);
  EXPECT_EQ(generated.end, End::max_tokens);
  request.stop_strings = {"!"};  // with the last token that there is room for
  generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello");
  EXPECT_EQ(generated.end, End::stop_string);
}

TEST_F(Generating, TheContextIsTheLimit) {
  request.sampling.logit_bias[1] = -INFINITY;  // <|end|>
  const Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.end, End::context);
  EXPECT_EQ(generated.prompt + generated.generated,
            generator.context() + 1);  // the last one is picked and not computed

  const std::vector<TokenId> full(generator.context(), 5);
  EXPECT_REFUSED(generator.generate(full, request), "too long", "expected fewer than 512", "found 512");
  EXPECT_REFUSED(generator.expect_fits(512), "too long", "expected fewer than 512", "found 512");
  EXPECT_REFUSED(generator.generate({}, request), "found an empty one");
  generator.expect_fits(511);
}

TEST_F(Generating, StopsWhereItIsInterrupted) {
  std::atomic<bool> interrupted = true;
  request.interrupted = &interrupted;
  Generated generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.end, End::interrupted);
  EXPECT_EQ(generated.computed, 0u);
  EXPECT_EQ(generated.text, "");
  interrupted = false;
  request.show = [&](std::string_view) { interrupted = true; };
  generated = generator.generate(hi(), request);
  EXPECT_EQ(generated.text, "Hello");
  EXPECT_EQ(generated.generated, 1u);
  EXPECT_EQ(generated.end, End::interrupted);
}

// Interrupts the third batch of a prompt.
struct Interrupted : ForwardingBackend {
  using ForwardingBackend::ForwardingBackend;
  void begin(const model::Batch& batch) override {
    interrupted = ++batches == 3;
    rows += batch.tokens.size();
    ForwardingBackend::begin(batch);
  }
  std::atomic<bool> interrupted = false;
  uint32_t batches = 0;
  size_t rows = 0;
};
TEST_F(Generating, AnInterruptedPromptDoesNotCountAsCached) {
  auto backend = std::make_unique<Interrupted>(std::move(running->backend));
  Interrupted& watched = *backend;
  running->backend = std::move(backend);
  Generator interrupted(*running);
  request.interrupted = &watched.interrupted;
  const Generated generated = interrupted.generate(std::vector<TokenId>(500, 7), request);
  EXPECT_EQ(generated.end, End::interrupted);
  EXPECT_EQ(generated.cached, 0u);
  EXPECT_EQ(generated.computed, watched.rows);
  EXPECT_LT(generated.computed, 500u);
  const std::string line = figures(generated);
  expect_says(line, {"prompt 500 tokens (" + std::to_string(watched.rows) + " computed), ", "generated 0 tokens"});
  EXPECT_EQ(line.find("cached"), std::string::npos);
}

TEST_F(Generating, WhatShowingThrowsReachesTheCaller) {
  request.show = [](std::string_view) { throw std::runtime_error("the pipe is closed"); };
  EXPECT_THROW(generator.generate(hi(), request), std::runtime_error);
  request.show = {};
  EXPECT_EQ(generator.generate(hi(), request).text, greeting);
}

TEST_F(Generating, LogitsOfEveryToken) {
  engine::Engine engine(running->model, *running->backend, running->limits, single_user(*running));
  const std::vector<TokenId> text = ids({{"user", "Tell me a story."}});
  model::Session session(running->model, *running->backend, running->limits);
  std::vector<std::vector<float>> expected;
  session.feed_each(text, [&](size_t, std::span<const float> row) { expected.emplace_back(row.begin(), row.end()); });
  for (const uint32_t from : {0u, 3u, uint32_t(text.size() - 1)}) {
    uint32_t next = from;
    compute_logits(engine, text, from, [&](uint32_t i, std::span<const float> row) {
      ASSERT_EQ(i, next++);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected[i].begin(), expected[i].end())) << i;
    });
    EXPECT_EQ(next, text.size());
  }
  const auto fails = [](uint32_t, std::span<const float>) { throw Error("the disk is full"); };
  EXPECT_REFUSED(compute_logits(engine, text, 0, fails), "the disk is full");
}

// --- on a device ----------------------------------------------------------------------------------------------------
using Device = DeviceBackend<ForwardingBackend>;

struct OnADevice : testing::Test {
  std::unique_ptr<RunningModel> cpu = open_running(weft, {.device = "cpu"}), device = on_device();
  Generator by_host{*cpu}, by_device{*device};
  Device& backend = static_cast<Device&>(*device->backend);
  GenerateRequest request{.sampling = {.temperature = 0}};

  static std::unique_ptr<RunningModel> on_device() {
    auto running = open_running(weft, {.device = "cpu"});
    running->backend = std::make_unique<Device>(running->model, std::move(running->backend));
    return running;
  }
  std::vector<TokenId> ids(const std::string& message) const { return chat_ids(*cpu, {{"user", message}}, 0); }

  // Both ways; everything must be equal. `before` is called before each.
  Generated both(
      const std::vector<TokenId>& prompt, const std::function<void()>& before = [] {}) {
    std::vector<engine::Pick> picks, expected_picks;
    request.picked = [&](const engine::Pick& pick) { expected_picks.push_back(pick); };
    before();
    const Generated expected = by_host.generate(prompt, request);
    request.picked = [&](const engine::Pick& pick) { picks.push_back(pick); };
    before();
    const Generated found = by_device.generate(prompt, request);
    request.picked = nullptr;
    EXPECT_EQ(found.text, expected.text);
    EXPECT_EQ(found.end, expected.end);
    EXPECT_EQ(found.generated, expected.generated);
    EXPECT_EQ(found.computed, expected.computed);
    EXPECT_EQ(by_device.length(), by_host.length());
    EXPECT_EQ(picks.size(), expected_picks.size());
    for (size_t i = 0; i < std::min(picks.size(), expected_picks.size()); ++i) {
      EXPECT_EQ(picks[i].id, expected_picks[i].id) << i;
      EXPECT_EQ(picks[i].log_probability, expected_picks[i].log_probability) << i;
    }
    return found;
  }
};

TEST_F(OnADevice, TheSameTextGreedilyAndOneBatchAhead) {
  const Generated generated = both(ids("hi"));
  EXPECT_EQ(generated.text, greeting);
  EXPECT_EQ(backend.logits_rows, 0u);
  EXPECT_EQ(backend.picks, generated.generated + 1);  // one was under way when the model ended
  EXPECT_EQ(backend.followed, generated.generated - 1);
  EXPECT_EQ(backend.pickings.at(0).temperature, 0);
  EXPECT_EQ(backend.pickings.at(0).picks, 1u);
}

TEST_F(OnADevice, TheSameTextWithASeed) {
  request.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .seed = 7};
  request.max_tokens = 60;
  both(ids("Tell me a story about a boat."));
  EXPECT_EQ(backend.pickings.at(0).seed, 7u);
  EXPECT_GT(backend.followed, 50u);

  request.sampling = {.temperature = 1.2f,
                      .repetition_penalty = 1.3f,
                      .repetition_last_n = 20,
                      .presence_penalty = 0.4f,
                      .frequency_penalty = 0.2f,
                      .logit_bias = {{5, 1.5f}, {1, -INFINITY}},
                      .seed = 8,
                      .logprobs = 0};
  both(ids("Tell me a story about a dog."));
  EXPECT_EQ(backend.pickings.at(0).seed, 8u);
  EXPECT_GT(backend.followed, 100u);
}

TEST_F(OnADevice, TurnsContinueWithWhatWasComputed) {
  both(ids("hi"));
  const Generated second =
      both(chat_ids(*cpu, {{"user", "hi"}, {"assistant", greeting}, {"user", "What is heddle?"}}, 0));
  EXPECT_EQ(second.cached, 22u);
  both(ids("hi"));
}

TEST_F(OnADevice, WhatEndsATextDoesNotShowThatOneMoreWasUnderWay) {
  request.stop_strings = {"tell you"};
  EXPECT_EQ(both(ids("hi")).text, "Hello! I can ");
  request.stop_strings.clear();
  std::atomic<bool> interrupted = false;
  size_t shown = 0;
  request.interrupted = &interrupted;
  request.show = [&](std::string_view) { interrupted = ++shown == 3; };
  const Generated generated = both(ids("hi"), [&] {
    interrupted = false;
    shown = 0;
  });
  EXPECT_EQ(generated.end, End::interrupted);
  EXPECT_EQ(generated.generated, 3u);
}

TEST_F(OnADevice, NoBatchIsLaunchedThatIsNotTaken) {
  for (uint32_t tokens : {1u, 2u, 3u, 7u}) {
    backend.picks = 0;
    request.max_tokens = tokens;
    EXPECT_EQ(both(ids("hi")).generated, tokens);
    EXPECT_EQ(backend.picks, tokens);
  }
  EXPECT_EQ(backend.dropped, 0u);
}

TEST_F(OnADevice, TheContextIsTheLimit) {
  request.sampling.logit_bias[1] = -INFINITY;  // <|end|>
  const Generated generated = both(ids("hi"));
  EXPECT_EQ(generated.end, End::context);
  EXPECT_EQ(by_device.length(), by_device.context() + 1);
  EXPECT_FALSE(backend.waits());
  // nearly full from the beginning
  EXPECT_EQ(both(std::vector<TokenId>(by_device.context() - 1, 5)).generated, 2u);
  EXPECT_EQ(both(std::vector<TokenId>(by_device.context() - 2, 6)).generated, 3u);
}

TEST_F(OnADevice, WhatOnlyTheSamplerKnowsIsPickedByTheHost) {
  request.sampling = {.temperature = 0.8f, .typical_p = 0.9f, .seed = 3};
  request.max_tokens = 10;
  both(ids("hi"));
  EXPECT_EQ(backend.picks, 0u);
}

TEST_F(OnADevice, NothingToPickIsRefused) {
  backend.nothing_at = 3;
  EXPECT_REFUSED(by_device.generate(ids("hi"), request), "the logits have no token that can be picked");
  backend.nothing_at = ~0u;
  EXPECT_EQ(by_device.generate(ids("hi"), request).text, by_host.generate(ids("hi"), request).text);
}

TEST(Interrupting, OnlyAsLongAsItLives) {
  const auto before = ::signal(SIGINT, SIG_DFL);
  {
    const Interrupt interrupt;
    EXPECT_FALSE(interrupt.flag());
    ::raise(SIGINT);
    EXPECT_TRUE(interrupt.flag());
  }
  EXPECT_FALSE(Interrupt().flag());
  EXPECT_EQ(::signal(SIGINT, SIG_IGN), SIG_DFL);
  {
    const Interrupt interrupt;
    ::raise(SIGINT);
    EXPECT_FALSE(interrupt.flag());  // a program that ignores it goes on doing so
  }
  EXPECT_EQ(::signal(SIGINT, before), SIG_IGN);
}

}  // namespace
}  // namespace heddle::test

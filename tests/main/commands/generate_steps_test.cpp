// Texts from a backend that goes on by itself: the same as when tokens are fed, and what is under way does not show.
#include <gtest/gtest.h>

#include "main/chat/conversation.h"
#include "main/commands/generate.h"
#include "tests/support/backends.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using text::TokenId;

using Device = DeviceBackend<ForwardingBackend>;

struct Stepping : testing::Test {
  std::unique_ptr<RunningModel> fed = open_running(weft, {.device = "cpu"}), stepped = stepping();
  Generator by_feeding{*fed}, by_steps{*stepped};
  Device& backend = static_cast<Device&>(*stepped->backend);
  GenerateRequest request{.sampling = {.temperature = 0}};

  static std::unique_ptr<RunningModel> stepping() {
    auto running = open_running(weft, {.device = "cpu"});
    running->backend = std::make_unique<Device>(running->model, std::move(running->backend));
    return running;
  }
  std::vector<TokenId> ids(const std::string& message) const { return chat_ids(*fed, {{"user", message}}, 0); }

  // Both ways; everything must be equal. `before` is called before each.
  Generated both(
      const std::vector<TokenId>& prompt, const std::function<void()>& before = [] {}) {
    std::vector<engine::Pick> picks, expected_picks;
    request.picked = [&](const engine::Pick& pick) { expected_picks.push_back(pick); };
    before();
    const Generated expected = by_feeding.generate(prompt, request);
    request.picked = [&](const engine::Pick& pick) { picks.push_back(pick); };
    before();
    const Generated found = by_steps.generate(prompt, request);
    request.picked = nullptr;
    EXPECT_EQ(found.text, expected.text);
    EXPECT_EQ(found.ending, expected.ending);
    EXPECT_EQ(found.made, expected.made);
    EXPECT_EQ(found.fed, expected.fed);
    EXPECT_EQ(by_steps.length(), by_feeding.length());
    EXPECT_EQ(picks.size(), expected_picks.size());
    for (size_t i = 0; i < std::min(picks.size(), expected_picks.size()); ++i) {
      EXPECT_EQ(picks[i].id, expected_picks[i].id) << i;
      EXPECT_EQ(picks[i].log_probability, expected_picks[i].log_probability) << i;
    }
    return found;
  }
};

TEST_F(Stepping, TheSameTextGreedilyAndOneStepAhead) {
  const Generated generated = both(ids("hi"));
  EXPECT_EQ(generated.text, "Hello! I can tell you a little story, or say what heddle is.");
  EXPECT_EQ(backend.picks, generated.made);  // the first is picked here, and one was under way at the end
  EXPECT_EQ(backend.followed, generated.made - 1);
  const model::Picking& picking = backend.pickings.at(0);
  EXPECT_EQ(picking.temperature, 0);
  EXPECT_EQ(picking.picks, 1u);
  EXPECT_EQ(picking.prompt, generated.prompt);
  EXPECT_EQ(picking.text.size(), generated.prompt + 1);
}

TEST_F(Stepping, TheSameTextWithASeed) {
  request.sampling = {.temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .seed = 7};
  request.tokens = 60;
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
}

TEST_F(Stepping, TurnsGoOnWithWhatWasComputed) {
  both(ids("hi"));
  const Generated second = both(chat_ids(*fed,
                                         {{"user", "hi"},
                                          {"assistant", "Hello! I can tell you a little story, or say what heddle is."},
                                          {"user", "What is heddle?"}},
                                         0));
  EXPECT_LT(second.fed, second.prompt);
  both(ids("hi"));
}

TEST_F(Stepping, WhatEndsATextDoesNotShowThatOneMoreWasUnderWay) {
  request.stops = {"tell you"};
  EXPECT_EQ(both(ids("hi")).text, "Hello! I can ");
  request.stops.clear();
  std::atomic<bool> interrupted = false;
  size_t shown = 0;
  request.interrupted = &interrupted;
  request.show = [&](std::string_view) { interrupted = ++shown == 3; };
  const Generated generated = both(ids("hi"), [&] { interrupted = false, shown = 0; });
  EXPECT_EQ(generated.ending, Ending::interrupted);
  EXPECT_EQ(generated.made, 3u);
}

TEST_F(Stepping, NoStepIsLaunchedThatNobodyWillTake) {
  for (uint32_t tokens : {1u, 2u, 3u, 7u}) {
    backend.picks = 0;
    request.tokens = tokens;
    EXPECT_EQ(both(ids("hi")).made, tokens);
    EXPECT_EQ(backend.picks, tokens - 1);
  }
}

TEST_F(Stepping, TheContextIsTheLimit) {
  request.sampling.logit_bias[1] = -INFINITY;  // <|end|>
  const Generated generated = both(ids("hi"));
  EXPECT_EQ(generated.ending, Ending::context);
  EXPECT_EQ(by_steps.length(), by_steps.context());
  EXPECT_FALSE(backend.waits());
  // nearly full from the beginning
  std::vector<TokenId> prompt(by_steps.context() - 1, 5);
  EXPECT_EQ(both(prompt).made, 2u);
  EXPECT_EQ(both(std::vector<TokenId>(by_steps.context() - 2, 6)).made, 3u);
}

TEST_F(Stepping, WhatOnlyTheSamplerKnowsIsFed) {
  request.sampling = {.temperature = 0.8f, .typical_p = 0.9f, .seed = 3};
  request.tokens = 10;
  both(ids("hi"));
  EXPECT_EQ(backend.picks, 0u);
}

TEST_F(Stepping, NothingToPickIsRefused) {
  backend.nothing_at = 3;
  EXPECT_REFUSED(by_steps.generate(ids("hi"), request), "the device found no token to pick");
  backend.nothing_at = ~0u;
  EXPECT_EQ(by_steps.generate(ids("hi"), request).text, by_feeding.generate(ids("hi"), request).text);
}

}  // namespace
}  // namespace heddle::test

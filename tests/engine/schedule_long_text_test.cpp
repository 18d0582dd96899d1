// Models that rotate long texts otherwise: whatever runs beside it, and wherever it crosses the border, a text has the
// tokens that it has when it is computed whole at every length.
#include <gtest/gtest.h>

#include "engine/schedule.h"
#include "tests/engine/crowd.h"

namespace heddle::engine {
namespace {

constexpr uint32_t border = 24;

model::Model long_rope_model() {
  model::Model model = test::tiny_model();
  model.short_text = border;
  for (model::Layer& layer : model.layers) {
    model::Rope& rope = layer.get<model::Attention>().rope;
    rope.long_radians = rope.radians;
    for (size_t i = 0; i < rope.radians.size(); ++i) rope.long_radians[i] /= 2.0 + double(i);
  }
  return model;
}

// Each token from the logits of the whole text before it.
std::vector<uint32_t> greedy_by_whole_texts(const model::Model& model, std::vector<uint32_t> text, uint32_t count) {
  const model::Limits limits = model::limits_for(model.context);
  std::vector<uint32_t> generated;
  for (uint32_t i = 0; i < count; ++i) {
    const auto backend = cpu::make_cpu(model, limits, {.threads = 1});
    model::Session session(model, *backend, limits);
    const std::span<const float> logits = session.feed(text);
    generated.push_back(uint32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    text.push_back(generated.back());
  }
  return generated;
}

std::vector<uint32_t> long_prompt(uint32_t length, uint32_t seed) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < length; ++i) ids.push_back((seed * 17 + i * i * 7 + 3) % 61);
  return ids;
}

TEST(LongTexts, AreThoseOfWholeTextsAtEveryLength) {
  for (const Speculation speculation : {Speculation::off, Speculation::on}) {
    test::World world(long_rope_model(), {.rows = 32, .kv_blocks = 60, .block_tokens = 8});
    Engine engine(world.model, *world.backend, world.limits, {});
    std::vector<std::vector<uint32_t>> answers(6), expected;
    // within the border, across it, exactly up to it, beyond it from the start
    const uint32_t lengths[] = {3, 20, 23, 24, 25, 40};
    for (uint32_t i = 0; i < 6; ++i) {
      Request request{.prompt = long_prompt(lengths[i], i), .max_tokens = 14};
      request.sampling.temperature = 0;
      request.speculation = speculation;
      expected.push_back(greedy_by_whole_texts(world.model, request.prompt, 14));
      engine.submit(std::move(request), [&answers, i](const Event& event) {
        if (event.finish_reason == FinishReason::none) answers[i].push_back(event.pick.id);
      });
    }
    while (engine.step()) {
    }
    for (uint32_t i = 0; i < 6; ++i) EXPECT_EQ(answers[i], expected[i]) << lengths[i];
  }
}

// The first half of a long text is a short one, and shares nothing with it.
TEST(LongTexts, ShareNoBlocksWithShortOnes) {
  test::World world(long_rope_model(), {.rows = 32, .kv_blocks = 60, .block_tokens = 8});
  Engine engine(world.model, *world.backend, world.limits, {});
  const auto answer = [&](uint32_t length) {
    std::vector<uint32_t> tokens;
    uint32_t cached = 0;
    Request request{.prompt = long_prompt(length, 1), .max_tokens = 3};
    request.sampling.temperature = 0;
    engine.submit(std::move(request), [&](const Event& event) {
      if (event.finish_reason == FinishReason::none) tokens.push_back(event.pick.id);
      cached = std::max(cached, event.cached_tokens);
    });
    while (engine.step()) {
    }
    EXPECT_EQ(tokens, greedy_by_whole_texts(world.model, long_prompt(length, 1), 3)) << length;
    return cached;
  };
  EXPECT_EQ(answer(20), 0u);
  EXPECT_GE(answer(20), 16u);
  EXPECT_EQ(answer(40), 0u);
  EXPECT_GE(answer(40), 32u);
}

}  // namespace
}  // namespace heddle::engine

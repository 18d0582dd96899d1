// Requests that want log-probabilities, logits or an embedding of their prompt, with or without a completion.
#include "engine/sequence.h"

#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"
#include "tests/support/refused.h"

namespace heddle::test::fake {
namespace {

using engine::FinishReason;
using engine::Request;

Request scored(std::vector<uint32_t> prompt, uint32_t max_tokens, uint32_t top = 0) {
  Request request = greedy(std::move(prompt), max_tokens);
  request.prompt_logprobs = top;
  return request;
}
Request embedded(std::vector<uint32_t> prompt) {
  Request request = greedy(std::move(prompt), 5);
  request.embed = true;
  return request;
}
model::Model pooling(model::Pooling pooling) {
  model::Model model = fake_model(256);
  model.pooling = pooling;
  return model;
}

TEST(Score, IsALogProbability) {
  const std::vector<float> logits{1, -2, 3.5f, -INFINITY, 3.5f, 0};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit));
  for (uint32_t token = 0; token < logits.size(); ++token) {
    const engine::Pick pick = engine::score(logits, token, 3);
    EXPECT_EQ(pick.id, token);
    if (token == 3)
      EXPECT_EQ(pick.log_probability, -INFINITY);
    else
      EXPECT_NEAR(pick.log_probability, logits[token] - std::log(sum), 1e-6);
    ASSERT_EQ(pick.top.size(), 3u);
    EXPECT_EQ(pick.top[0].id, 2u);
    EXPECT_EQ(pick.top[1].id, 4u);
    EXPECT_EQ(pick.top[2].id, 0u);
    EXPECT_NEAR(pick.top[2].log_probability, 1 - std::log(sum), 1e-6);
  }
  EXPECT_TRUE(engine::score(logits, 1, 0).top.empty());
  EXPECT_EQ(engine::score(logits, 1, 100).top.size(), 5u);  // all that are possible
  EXPECT_THROW(engine::score(std::vector<float>{NAN}, 0, 0), Error);
  EXPECT_THROW(engine::score(std::vector<float>{-INFINITY}, 0, 0), Error);
}

TEST(PromptLogprobs, ComeWithTheFirstToken) {
  EngineFixture<> fixture(fake_limits(64));
  const auto id = fixture.submit(scored(some_tokens(13), 4, 2));
  fixture.run();
  fixture.expect_as_alone();
  const std::vector<engine::Pick>& picks = fixture.answer(id).prompt_picks;
  ASSERT_EQ(picks.size(), 13u);
  EXPECT_EQ(picks[0].log_probability, 0);
  EXPECT_TRUE(picks[0].top.empty());
  for (size_t i = 0; i < 13; ++i) EXPECT_EQ(picks[i].id, some_tokens(13)[i]);
  for (size_t i = 1; i < 13; ++i) EXPECT_LT(picks[i].log_probability, 0);
  for (size_t i = 1; i < 13; ++i) EXPECT_EQ(picks[i].top.size(), 2u);
  EXPECT_EQ(fixture.answer(id).picks.size(), 4u);
}

TEST(PromptLogprobs, ComeWithTheEndIfThereIsNoToken) {
  EngineFixture<> fixture(fake_limits(64));
  for (const uint32_t tokens : {1u, 2u, 3u, 64u, 255u, 256u}) {
    Request request = scored(some_tokens(tokens), 0);
    request.n = 1 + tokens % 3;
    const auto id = fixture.submit(request);
    fixture.run();
    EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::length);
    EXPECT_EQ(fixture.answer(id).prompt_picks.size(), tokens);
  }
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.metrics().generated, 0u);
}

// The rows of a batch that send logits are limited, however long the prompt is: other requests go on beside it.
TEST(PromptLogprobs, TakeALimitedShareOfABatch) {
  EngineFixture<> fixture(fake_limits(400, 4, 200));
  for (uint32_t i = 0; i < 40; ++i) fixture.submit(greedy(some_tokens(100, i), 2));  // it learns
  fixture.run();
  fixture.backend.max_outputs = 0;
  for (uint32_t i = 0; i < 3; ++i) fixture.submit(scored(random_tokens(250, i), 3));
  fixture.submit(greedy(some_tokens(20), 30));
  const uint32_t steps = fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.backend.max_outputs, 60u);
  EXPECT_LE(fixture.backend.max_outputs, 64u + 4u);
  EXPECT_LT(steps, 60u);
}

// On a clock on which all work of the host takes long, prompt logits come a few rows at a time.
TEST(PromptLogprobs, TakeALimitedShareOfTheTime) {
  const model::Model model = fake_model(256);
  const model::Limits limits = fake_limits(400, 4, 200);
  FakeBackend backend(model, limits);
  double clock = 0;
  engine::Engine engine(
      model, backend, limits,
      {.max_stall = 0.008, .speculation = engine::Speculation::off, .now = [&] { return clock += 0.01; }});
  const auto outputs = [&](const Request& request) {  // at max_tokens, of the later half of its batches
    std::vector<size_t> each;
    bool ended = false;
    engine.submit(request, [&](const engine::Event& event) { ended = event.finish_reason != FinishReason::none; });
    while (!ended) {
      backend.max_outputs = 0;
      engine.step();
      each.push_back(backend.max_outputs);
    }
    return *std::max_element(each.begin() + ptrdiff_t(each.size() / 2), each.end());
  };
  EXPECT_GT(outputs(scored(random_tokens(250, 1), 0)), 10u);
  bool streams = false;
  engine.submit(greedy(some_tokens(3), 240),
                [&](const engine::Event& event) { streams = event.finish_reason == FinishReason::none; });
  while (!streams) engine.step();
  EXPECT_LE(outputs(scored(random_tokens(100, 2), 0)), 2u);  // one, and the stream
  EXPECT_TRUE(streams);
}

// Cached blocks have no logits, so such a prompt is computed again; others can reuse its blocks.
TEST(PromptLogprobs, AreComputedAnewAndPublished) {
  EngineFixture<> fixture(fake_limits(64));
  const auto first = fixture.submit(scored(some_tokens(33), 2));
  fixture.run();
  const auto second = fixture.submit(scored(some_tokens(33), 2));
  fixture.run();
  const auto third = fixture.submit(greedy(some_tokens(33), 2));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.answer(first).cached_tokens, 0u);
  EXPECT_EQ(fixture.answer(second).cached_tokens, 0u);
  EXPECT_EQ(fixture.answer(third).cached_tokens, 32u);
}

TEST(PromptLogprobs, SurvivePreemption) {
  EngineFixture<> fixture(fake_limits(34, 4, 16), {.prefix_cache = false});
  for (uint32_t i = 0; i < 6; ++i) {
    Request request = scored(random_tokens(60, i), 20, i % 3);
    request.priority = int(i);  // later ones take the blocks of those before
    request.n = 1 + i % 2;
    fixture.submit(request);
    for (uint32_t step = 0; step < 3; ++step) fixture.step();
  }
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().preemptions, 3u);
}

TEST(PromptLogprobs, NeedLogitsWhileTheDevicePicks) {
  EngineFixture<FakeDevice> fixture(fake_limits(200), {.speculation = engine::Speculation::off});
  fixture.submit(greedy(some_tokens(5), 60));
  for (uint32_t i = 0; i < 4; ++i) fixture.step();
  fixture.submit(scored(some_tokens(40), 60, 1));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.logits_rows, 39u) << "only those of the prompt's tokens";
  EXPECT_EQ(fixture.backend.picks, 120u);
}

TEST(PromptLogprobs, OfBadLogitsFailTheirRequestAlone) {
  EngineFixture<> fixture(fake_limits(64));
  const auto other = fixture.submit(greedy(some_tokens(5), 30));
  while (fixture.answer(other).picks.size() < 3) fixture.step();
  uint32_t rows = 0;
  fixture.backend.change_logits = [&](std::span<float> logits) {
    if (++rows == 4) logits[3] = NAN;
  };
  const auto bad = fixture.submit(scored(random_tokens(30, 1), 5));
  fixture.run();
  EXPECT_EQ(fixture.answer(bad).finish_reason, FinishReason::failed);
  EXPECT_NE(fixture.answer(bad).reason.find("NaN"), std::string::npos);
  EXPECT_TRUE(fixture.answer(bad).prompt_picks.empty());
  expect_same(fixture.answer(other), fixture.alone(other));
}

TEST(PromptLogprobs, AreSharedByCompletions) {
  EngineFixture<> fixture(fake_limits(64));
  std::vector<const void*> lists;
  Request request = scored(some_tokens(9), 3);
  request.n = 3;
  fixture.submit(request, [&](const engine::Event& event) {
    if (event.prompt_picks) lists.push_back(event.prompt_picks.get());
  });
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(lists, std::vector<const void*>(3, lists.at(0)));
}

TEST(PromptOnly, IsReusedByOthers) {
  EngineFixture<> fixture(fake_limits(64));
  const auto first = fixture.submit(greedy(some_tokens(40), 0));
  fixture.run();
  EXPECT_EQ(fixture.answer(first).finish_reason, FinishReason::length);
  EXPECT_EQ(fixture.backend.max_outputs, 0u);
  const auto second = fixture.submit(greedy(some_tokens(40), 1));
  fixture.run();
  EXPECT_EQ(fixture.answer(second).cached_tokens, 39u);
  fixture.expect_as_alone();
}

TEST(Embeddings, ArePooledAsTheModelSays) {
  using model::Pooling;
  for (const Pooling how : {Pooling::none, Pooling::mean, Pooling::cls, Pooling::last}) {
    EngineFixture<> fixture(fake_limits(80, 4, 16), {}, pooling(how));
    for (const uint32_t tokens : {1u, 2u, 17u, 64u, 256u}) {
      const auto id = fixture.submit(embedded(random_tokens(tokens, tokens)));
      fixture.submit(scored(some_tokens(20), 7, 1));  // beside it
      fixture.run();
      EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::stop);
      EXPECT_TRUE(fixture.answer(id).picks.empty());
      double square = 0;
      for (const float value : fixture.answer(id).embedding) square += double(value) * value;
      EXPECT_NEAR(square, 1, 1e-6);
    }
    fixture.expect_as_alone();
    EXPECT_GT(fixture.backend.kept_states, 0u);
  }
}

// The last state needs nothing of those before it but their KV.
TEST(Embeddings, OfTheLastTokenReuseWhatOthersComputed) {
  EngineFixture<> fixture(fake_limits(80), {}, pooling(model::Pooling::last));
  fixture.submit(greedy(some_tokens(40), 1));
  fixture.run();
  const auto id = fixture.submit(embedded(some_tokens(40)));
  fixture.run();
  EXPECT_EQ(fixture.answer(id).cached_tokens, 39u);
  fixture.expect_as_alone();
}

// Streams grow into the blocks of a prompt that is computed two rows at a time.
TEST(Embeddings, SurvivePreemption) {
  EngineFixture<> fixture(fake_limits(40, 4, 5), {.prefix_cache = false, .speculation = engine::Speculation::off});
  for (uint32_t i = 0; i < 3; ++i) fixture.submit(greedy(random_tokens(8, i), 60));
  for (uint32_t step = 0; step < 12; ++step) fixture.step();
  for (uint32_t i = 0; i < 2; ++i) fixture.submit(embedded(random_tokens(90, 7 + i)));
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_GT(fixture.metrics().preemptions, 0u);
  EXPECT_GT(fixture.metrics().prompt_computed, 3 * 8 + 2 * 90u);
}

TEST(Embeddings, OfAModelThatHasNoneAreRefused) {
  EngineFixture<> fixture(fake_limits(80), {}, pooling(model::Pooling::rank));
  EXPECT_THROW(fixture.submit(embedded(some_tokens(4))), Error);
  fixture.submit(greedy(some_tokens(4), 3));
  fixture.run();
  fixture.expect_as_alone();
}

struct Stateless : FakeBackend {
  using FakeBackend::FakeBackend;
  model::Result result() override { return {{}, FakeBackend::result().logits, {}}; }
};
TEST(Embeddings, OfABackendThatHasNoneFailTheirRequestAlone) {
  EngineFixture<Stateless> fixture(fake_limits(80));
  const auto other = fixture.submit(greedy(some_tokens(4), 3));
  const auto id = fixture.submit(embedded(some_tokens(4, 2)));
  fixture.run();
  EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::failed);
  EXPECT_EQ(fixture.answer(id).reason, "fake gives no embeddings");
  expect_same(fixture.answer(other), fixture.alone(other));
}

// The logits of every row from the first wanted on, each once, even after a preemption.
TEST(PromptLogits, AreThoseAfterEachToken) {
  for (const uint32_t blocks : {200u, 24u})  // with room, and with preemptions
    for (const uint32_t from : {0u, 1u, 30u, 69u}) {
      EngineFixture<> fixture(fake_limits(blocks), {.max_prompt_logits = 16});
      for (uint32_t i = 0; i < 4; ++i) fixture.submit(greedy(some_tokens(5, i), 15));
      for (uint32_t i = 0; i < 5; ++i) fixture.step();
      fixture.submit(greedy(some_tokens(70), 1));  // the next request could reuse its blocks
      uint32_t next = from;
      Request request = greedy(some_tokens(70), 0);
      request.logits_from = from;
      request.on_prompt_logits = [&](uint32_t position, std::span<const float> logits) {
        EXPECT_EQ(position, next++);
        Reading reading;
        for (uint32_t i = 0; i <= position; ++i) reading.read(reading.next(some_tokens(70)[i], i));
        std::vector<float> expected(fixture.model.vocabulary);
        reading.logits(fixture.model, expected);
        EXPECT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin(), expected.end())) << position;
      };
      fixture.backend.max_outputs = 0;
      const auto id = fixture.submit(request);
      fixture.run();
      EXPECT_EQ(next, 70u);
      EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::length);
      EXPECT_LE(fixture.backend.max_outputs, 16u + 6u) << "those, and a row of each request";
      fixture.expect_as_alone();
    }
}

TEST(PromptLogits, ComeWithoutACompletion) {
  EngineFixture<> fixture(fake_limits(64));
  Request request = greedy(some_tokens(7), 1);
  request.on_prompt_logits = [](uint32_t, std::span<const float>) { throw std::runtime_error("no more"); };
  EXPECT_THROW(fixture.submit(request), Error);
  request.max_tokens = 0;
  request.prompt_logprobs = 1;
  EXPECT_THROW(fixture.submit(request), Error);
  request.prompt_logprobs.reset();
  const auto id = fixture.submit(request);
  fixture.run();
  EXPECT_EQ(fixture.answer(id).finish_reason, FinishReason::failed) << "what it throws ends its request";
  EXPECT_EQ(fixture.answer(id).reason, "no more");
  EXPECT_THROW(EngineFixture<>(fake_limits(64), {.max_prompt_logits = 0}), Error);
}

TEST(PromptResults, AreEmptyUnlessAskedFor) {
  const model::Model model = fake_model(64);
  const engine::PromptResults results(greedy(some_tokens(5), 3), model);
  EXPECT_EQ(results.next(), UINT32_MAX);
  EXPECT_EQ(results.scores(), nullptr);
  EXPECT_TRUE(results.embedding().empty());
}

TEST(PromptResults, WantEachRowOnce) {
  const model::Model model = fake_model(64);
  Request request = scored({5, 6, 7}, 0);
  request.embed = true;
  engine::PromptResults results(request, model);
  const std::vector<float> logits(16), state{3, 0, 4};
  EXPECT_EQ(results.next(), 0u);
  results.add_state(state);
  EXPECT_EQ(results.next(), 0u);  // its logits
  EXPECT_EQ(results.scores(), nullptr);
  results.add_logits(request, logits);
  EXPECT_EQ(results.next(), 1u);
  results.add_logits(request, logits);
  EXPECT_TRUE(results.logits().empty());  // nothing comes after the last token
  EXPECT_EQ(results.scores()->size(), 3u);
  EXPECT_EQ(results.next(), 1u);
  for (int i = 0; i < 2; ++i) results.add_state(state);
  EXPECT_EQ(results.next(), UINT32_MAX);
  EXPECT_EQ(results.embedding(), (std::vector<float>{0.6f, 0, 0.8f}));
  EXPECT_THROW(results.add_state(state), std::logic_error);
  EXPECT_THROW(results.add_logits(request, logits), std::logic_error);
}

TEST(PromptResults, OfZerosAreZeros) {
  const model::Model model = fake_model(64);
  engine::PromptResults results(embedded({1}), model);
  results.add_state(std::vector<float>(3));
  EXPECT_EQ(results.embedding(), std::vector<float>(3));
}

TEST(PromptResults, GoThroughDenseModules) {
  model::Model model = fake_model(64);
  // y0 = tanh(x0 + x1 + 0.5), y1 = tanh(2 x2); then z = y1 - y0, y0
  model.dense = {{model::Dense::Activation::tanh, 2, 3, {1, 1, 0, 0, 0, 2}, {0.5f, 0}},
                 {model::Dense::Activation::identity, 2, 2, {-1, 1, 1, 0}, {}}};
  engine::PromptResults results(embedded({1, 2}), model);
  results.add_state(std::vector<float>{0.1f, 0, 0.3f});
  results.add_state(std::vector<float>{0.3f, 0.2f, 0.1f});
  const double y0 = std::tanh(0.2 + 0.1 + 0.5), y1 = std::tanh(2 * 0.2), length = std::hypot(y1 - y0, y0);
  ASSERT_EQ(results.embedding().size(), 2u);
  EXPECT_NEAR(results.embedding()[0], (y1 - y0) / length, 1e-6);
  EXPECT_NEAR(results.embedding()[1], y0 / length, 1e-6);
}

model::Model reranker(std::vector<std::string> labels = {}) {
  model::Model model = pooling(model::Pooling::rank);
  model::Classifier& classifier = model.classifier.emplace();
  classifier.pooling = model::Pooling::mean;
  classifier.dense = model::Dense{model::Dense::Activation::relu, 2, 3, {1, 0, 0, 0, 1, 0}, {0, -10}};
  const auto rows = uint32_t(labels.empty() ? 1 : labels.size());
  classifier.output = {model::Dense::Activation::identity, rows, 2, std::vector<float>(2 * rows, 4), {}};
  classifier.labels = std::move(labels);
  return model;
}

TEST(PromptResults, GoThroughTheClassifier) {
  const model::Model model = reranker();
  Request request{.prompt = {1, 2}, .rank = true};
  engine::PromptResults results(request, model);
  results.add_state(std::vector<float>{1, 2, 3});
  results.add_state(std::vector<float>{2, 4, 5});
  EXPECT_EQ(results.labels(), (std::vector<float>{6}));  // 4 * 1.5 + 4 * relu(3 - 10)
  EXPECT_TRUE(results.embedding().empty());
}

TEST(PromptResults, MayBeStatesOfEachToken) {
  const model::Model model = pooling(model::Pooling::cls);
  Request request = embedded({1, 2});
  request.pool = false;
  engine::PromptResults results(request, model);
  results.add_state(std::vector<float>{1, 2, 3});
  results.add_state(std::vector<float>{4, 5, 6});
  EXPECT_EQ(results.embedding(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Ranks, AreOfRerankersAlone) {
  Request request{.prompt = {1, 2}, .rank = true};
  EngineFixture<> other(fake_limits(80));
  EXPECT_REFUSED(other.submit(request), "fake is not a reranker", "no classifier");
  EngineFixture<> many(fake_limits(80), {}, reranker({"bad", "fair", "good"}));
  EXPECT_REFUSED(many.submit(request), "expected one label", "found 3 labels");
  EngineFixture<> one(fake_limits(80), {}, reranker());
  request.embed = true;
  EXPECT_REFUSED(one.submit(request), "found both");
}

// An encoder. Its backend notes batches that have a part of a text.
model::Model encoder(uint32_t context) {
  model::Model model = fake_model(context);
  model.output = {};
  model::Attention attention;
  attention.causal = false;
  model.layers.push_back({.sublayers = {attention}});
  model.type_embeddings.resize(2 * model.width);
  return model;
}
struct WholeTexts : FakeBackend {
  using FakeBackend::FakeBackend;
  void begin(const model::Batch& batch) override {
    std::vector<uint32_t> rows(batch.blocks.size());
    for (size_t i = 0; i < batch.tokens.size(); ++i) EXPECT_EQ(batch.positions[i], rows[batch.sequences[i]]++);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(batch.blocks[i].size(), (rows[i] + limits_.block_tokens - 1) / limits_.block_tokens);
      ++lengths[rows[i]];
    }
    types = batch.types;
    most = std::max(most, rows.size());
    FakeBackend::begin(batch);
  }
  std::map<uint32_t, uint32_t> lengths;  // of texts: how many
  std::vector<uint32_t> types;
  size_t most = 0;  // texts in a batch
};

TEST(Encoders, ComputeATextInOneBatchAndManyTextsInEach) {
  EngineFixture<WholeTexts> fixture(fake_limits(80, 4, 64), {}, encoder(64));  // rows / 4 + 64 blocks
  std::map<uint32_t, uint32_t> lengths;
  for (uint32_t i = 0; i < 300; ++i) {
    const uint32_t length = 1 + (i * i * 7) % 64;
    ++lengths[length];
    fixture.submit(embedded(random_tokens(length, i)));
  }
  fixture.run();
  fixture.expect_as_alone();
  EXPECT_EQ(fixture.backend.lengths, lengths);
  EXPECT_GE(fixture.backend.most, 3u);
  EXPECT_EQ(fixture.metrics().blocks_cached, 0u);
  EXPECT_EQ(fixture.metrics().preemptions, 0u);
  // 64 rows each, of which few are left empty
  EXPECT_LT(double(fixture.backend.batches), 1.2 * double(fixture.backend.rows) / 64);
}

TEST(Encoders, RefuseTextsLongerThanABatch) {
  EngineFixture<WholeTexts> fixture(fake_limits(80, 4, 32), {}, encoder(64));
  EXPECT_REFUSED(fixture.submit(embedded(some_tokens(33))), "at most 32", "the rows of a batch", "found 33");
  fixture.submit(embedded(some_tokens(32)));
  fixture.run();
  fixture.expect_as_alone();
}

TEST(Encoders, GenerateNothing) {
  EngineFixture<WholeTexts> fixture(fake_limits(80), {}, encoder(64));
  EXPECT_REFUSED(fixture.submit(greedy(some_tokens(4), 3)), "fake generates no text", "an encoder");
  EXPECT_REFUSED(fixture.submit(scored(some_tokens(4), 0, 1)), "fake generates no text");
}

TEST(Encoders, TakeTokenTypes) {
  EngineFixture<WholeTexts> fixture(fake_limits(80), {}, encoder(64));
  Request typed = embedded(some_tokens(3));
  typed.types = {0, 1, 1};
  fixture.submit(embedded(some_tokens(2)));
  fixture.submit(typed);
  fixture.submit(embedded(some_tokens(1)));
  fixture.run();
  EXPECT_EQ(fixture.backend.types, (std::vector<uint32_t>{0, 0, 0, 0, 1, 1}));  // texts of one row come first
  typed.types = {0, 2, 1};
  EXPECT_REFUSED(fixture.submit(typed), "token types below 2", "found 2");
  typed.types = {0};
  EXPECT_REFUSED(fixture.submit(typed), "each of 3 tokens", "found 1");
}

}  // namespace
}  // namespace heddle::test::fake

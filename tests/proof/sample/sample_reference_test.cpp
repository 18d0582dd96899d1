// The sampling kernel against engine::Sampler: exactly the same ids and log-probabilities from the same logits, over
// whole texts.
#include "proof/sample/sample_reference.h"

#include <gtest/gtest.h>

#include "engine/sampling/numbers.h"
#include "engine/sampling/sampler.h"
#include "kernels/sample/sample.h"
#include "proof/case.h"

namespace heddle::proof {
namespace {

using engine::Sampler;
using engine::Sampling;
using kernels::Sample;
using kernels::Sampled;
using kernels::SampleRow;
using kernels::TokenBias;

Sampling random_sampling(Random& random, uint32_t vocab) {
  const auto often = [&] { return random.below(3) > 0; };
  Sampling s{.seed = random.bits(), .logprobs = 0};
  s.temperature = std::array{1.f, 1.f, 0.f, 0.7f, 1.8f, 20.f, 1e-30f}[random.below(7)];
  if (often()) s.top_k = int32_t(random.below(2) ? random.below(60) : random.below(vocab + 10)) - 1;
  if (often()) s.top_p = std::array{0.f, 0.5f, 0.9f, 0.95f, 0.999999f, 1.f}[random.below(6)];
  if (often()) s.min_p = std::array{0.f, 1e-6f, 0.02f, 0.3f, 1.f}[random.below(5)];
  if (often()) s.repetition_penalty = random.uniform(0.7f, 1.6f);
  s.repetition_last_n = std::array{-1, 0, 1, 5, 64}[random.below(5)];
  if (often()) s.presence_penalty = random.uniform(-2, 2);
  if (often()) s.frequency_penalty = random.uniform(-1, 1);
  if (often())
    for (uint32_t i = random.below(20); i > 0; --i)
      s.logit_bias[random.below(vocab)] = random.below(6) ? random.uniform(-8, 8) : -INFINITY;
  return s;
}

std::vector<float> random_logits(Random& random, uint32_t vocab) {
  std::vector<float> x = random.normals(vocab, std::array{0.f, 0.01f, 1.f, 4.f, 30.f}[random.below(5)]);
  const float by = random.below(2) ? 0 : random.uniform(-50, 50);
  const uint32_t kind = random.below(5);
  for (float& v : x) {
    v += by;
    if (kind == 1) v = std::floor(v);  // many equals
    if (kind == 2 && random.below(3) == 0) v = -INFINITY;
    if (kind == 3) v = std::floor(v) * 0.f;  // zeros of both signs
  }
  return x;
}

// One sequence, in the engine and for the kernel.
struct Sequence {
  Sequence(Random& random, uint32_t vocab, uint32_t capacity, std::vector<TokenBias>& biases)
      : sampler(random_sampling(random, vocab), vocab), text(capacity, 0xdddddddd) {
    const Sampling& s = sampler.sampling();
    row = {.temperature = s.temperature,
           .top_k = uint32_t(std::max(s.top_k, 0)),
           .top_p = s.top_p,
           .repetition = s.repetition_penalty,
           .presence = s.presence_penalty,
           .frequency = s.frequency_penalty,
           .repetition_last = uint32_t(s.repetition_last_n),
           .length = random.below(10),
           .seed = sampler.seed(),
           .log_min_p = s.min_p > 0 ? engine::log_of(double(s.min_p)) : SampleRow::no_min_p,
           .first_bias = uint32_t(biases.size()),
           .biases = uint32_t(s.logit_bias.size())};
    row.prompt = row.length;
    for (uint32_t i = 0; i < row.length; ++i) {
      text[i] = random.below(vocab);
      sampler.accept(text[i], engine::Origin::prompt);
    }
    for (const auto& [id, bias] : s.logit_bias) biases.push_back({id, bias});
  }
  Sampler sampler;
  SampleRow row;
  std::vector<uint32_t> text;  // (capacity)
};

// What the engine picks; no_token where it throws.
Sampled pick(Sampler& sampler, std::span<const float> logits, std::span<const uint32_t> allowed = {}) {
  try {
    const engine::Pick pick = sampler.pick(logits, allowed);
    return {pick.id, pick.log_probability};
  } catch (const Error&) {
    return {kernels::no_token, 0};
  }
}

void compare(Machine& machine, Random& random, Sample spec, uint32_t rows, uint32_t vocab, uint32_t turns) {
  constexpr uint32_t capacity = 16;
  std::vector<TokenBias> biases;
  std::vector<Sequence> sequences;
  for (uint32_t r = 0; r < rows; ++r) {
    sequences.emplace_back(random, vocab, capacity, biases);
    sequences.back().row.place = r;
  }
  biases.push_back({0, 0});
  for (uint32_t turn = 0; turn < turns; ++turn) {
    machine.clear();
    std::vector<float> logits;
    std::vector<SampleRow> params;
    std::vector<uint32_t> texts, masks;
    const uint32_t words = (vocab + 31) / 32;
    for (const Sequence& s : sequences) {
      for (const float x : random_logits(random, vocab)) logits.push_back(x);
      params.push_back(s.row);
      if (spec.masked) params.back().mask = random.below(3) ? uint32_t(params.size()) - 1 : SampleRow::no_mask;
      const bool few = random.below(2);
      for (uint32_t bit = 0; bit < words * 32; ++bit) {
        if (bit % 32 == 0) masks.push_back(0);
        masks.back() |= uint32_t(bit < vocab && random.below(10) < (few ? 1 : 8)) << bit % 32;
      }
      texts.insert(texts.end(), s.text.begin(), s.text.end());
    }
    const auto out = machine.poisoned<Sampled>(rows);
    const auto on_device = machine.put(params);
    const auto text = machine.put(texts);
    machine.launch(spec, Sample::Args{.out = {out.address},
                                      .logits = machine.put(logits),
                                      .params = {on_device.address},
                                      .biases = {machine.put(biases).address},
                                      .texts = text,
                                      .changed = machine.poisoned<float>(logits.size()),
                                      .masks = machine.put(masks),
                                      .rows = rows,
                                      .vocab = vocab,
                                      .capacity = capacity});
    const auto got = machine.get(out, rows);
    params = machine.get(on_device, rows);
    texts = machine.get(text, texts.size());
    for (uint32_t r = 0; r < rows; ++r) {
      Sequence& s = sequences[r];
      const auto one = std::span(logits).subspan(size_t(r) * vocab, vocab);
      const auto allowed = std::span<const uint32_t>(masks).subspan(r * words, words);
      const bool masked = params[r].mask != SampleRow::no_mask;
      const Sampled want = pick(s.sampler, one, masked ? allowed : std::span<const uint32_t>());
      const Sampling& sampling = s.sampler.sampling();
      ASSERT_EQ(got[r].id, want.id) << "vocabulary " << vocab << ", temperature " << sampling.temperature << ", top_k "
                                    << sampling.top_k << ", top_p " << sampling.top_p << ", min_p " << sampling.min_p;
      ASSERT_EQ(got[r].log_probability, want.log_probability);
      s.row = params[r];
      s.text.assign(texts.begin() + r * capacity, texts.begin() + (r + 1) * capacity);
      if (want.id == kernels::no_token) continue;
      ++s.row.step;  // as step_advance does
      s.sampler.accept(want.id);
    }
  }
}

// The most likely tokens and their log-probabilities, bit by bit; the engine orders equal log-probabilities by id.
void compare_tops(Machine& machine, Random& random, kernels::TopTokens spec, uint32_t rows, uint32_t vocab) {
  constexpr uint32_t most = 20;
  machine.clear();
  std::vector<float> logits;
  std::vector<SampleRow> params(rows);
  for (SampleRow& row : params) {
    row.top = random.below(most + 1);
    for (const float x : random_logits(random, vocab)) logits.push_back(x);
  }
  const auto out = machine.poisoned<Sampled>(rows * most);
  machine.launch(spec, kernels::TopTokens::Args{.out = {out.address},
                                                .logits = machine.put(logits),
                                                .params = {machine.put(params).address},
                                                .rows = rows,
                                                .vocab = vocab,
                                                .most = most});
  const std::vector<Sampled> got = machine.get(out, rows * most);
  for (uint32_t r = 0; r < rows; ++r) {
    engine::Pick want;
    try {
      want = engine::score(std::span(logits).subspan(size_t(r) * vocab, vocab), 0, std::min(params[r].top, vocab));
    } catch (const Error&) {  // nothing to pick from
    }
    std::vector<engine::TokenLogprob> found;
    for (uint32_t i = 0; i < params[r].top; ++i)
      if (const Sampled& one = got[r * most + i]; one.id != kernels::no_token)
        found.push_back({one.id, one.log_probability});
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.log_probability != b.log_probability ? a.log_probability > b.log_probability : a.id < b.id;
    });
    ASSERT_EQ(found.size(), want.top.size()) << "row " << r;
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].id, want.top[i].id) << "row " << r << ", place " << i;
      ASSERT_EQ(found[i].log_probability, want.top[i].log_probability);
    }
  }
}

TEST(TopTokensKernel, AreTheEnginesLogprobs) {
  Random random(6);
  const auto machine = interpreter();
  for (uint32_t splits : {1u, 4u})
    for (uint32_t vocab : {1u, 17u, 300u, 2000u})
      compare_tops(*machine, random, {.threads = 64, .splits = splits}, 12, vocab);
}

TEST(SampleKernel, PicksWhatTheEnginePicks) {
  Random random(5);
  auto machine = interpreter();
  for (uint32_t batch = 0; batch < 60; ++batch) {
    const uint32_t splits = 1u << random.below(3), vocab = 1 + random.below(random.below(2) ? 3000 : 50);
    compare(*machine, random, {.threads = 64, .splits = splits, .logprob = 1, .masked = batch % 2}, 5, vocab, 4);
    if (HasFatalFailure()) return;
  }
}

TEST(SampleKernel, PicksWhatTheEnginePicksFromManyTokens) {
  Random random(6);
  auto machine = interpreter();
  compare(*machine, random, {.threads = 256, .splits = 2, .vec = 4, .logprob = 1}, 4, 32000, 1);
}

// Without interpreting: the reference that the GPU is held to.
TEST(SampleReference, PicksWhatTheEnginePicks) {
  Random random(7);
  uint32_t none = 0;
  for (uint32_t turn = 0; turn < 6000; ++turn) {
    const uint32_t vocab = turn < 3 ? 128256 : 1 + random.below(random.below(8) ? 100 : 3000);
    std::vector<TokenBias> biases;
    Sequence s(random, vocab, 16, biases);
    const std::vector<float> logits = random_logits(random, vocab);
    const SampleReference want = sample_reference(
        {.logits = logits, .row = s.row, .biases = biases, .text = std::span(s.text).first(s.row.length)});
    ASSERT_EQ(pick(s.sampler, logits).id, want.id) << "turn " << turn;
    none += want.id == kernels::no_token;
  }
  EXPECT_LT(none, 300u);
}

}  // namespace
}  // namespace heddle::proof

// The reference for tests with the fake model: a request computed alone, by a plain loop, one token after another.
#pragma once
#include "engine/request.h"
#include "grammar/token_masks.h"
#include "tests/engine/fake_backend.h"

namespace heddle::test::fake {

struct Answer {
  std::vector<engine::Pick> picks;
  engine::FinishReason finish_reason = engine::FinishReason::none;
  std::string reason;
  uint32_t prompt = 0, cached_tokens = 0, generated = 0;
  std::vector<engine::Pick> prompt_picks;
  std::vector<float> embedding;

  std::vector<uint32_t> tokens() const {
    std::vector<uint32_t> ids;
    for (const engine::Pick& pick : picks) ids.push_back(pick.id);
    return ids;
  }
};

// Records what comes with an event besides a token, and checks that it comes where it was asked for, and once.
inline void note(const engine::Request& request, const engine::Event& event, Answer& answer) {
  const bool broken =
      event.finish_reason == engine::FinishReason::cancelled || event.finish_reason == engine::FinishReason::failed;
  const bool first = answer.picks.empty(), whole = event.finish_reason != engine::FinishReason::none && !broken;
  EXPECT_TRUE(broken || (event.prompt_picks != nullptr) == (request.prompt_logprobs && first));
  EXPECT_EQ(event.embedding.empty(), !(request.embed && whole));
  if (event.prompt_picks) answer.prompt_picks = *event.prompt_picks;
  answer.embedding = event.embedding;
  EXPECT_EQ(event.steps != nullptr, request.trace && event.finish_reason != engine::FinishReason::none);
}

inline std::vector<float> pooled_alone(const model::Model& model, const std::vector<std::vector<float>>& states) {
  std::vector<double> sum(model.width);
  for (size_t row = 0; row < states.size(); ++row) {
    if (model.pooling == model::Pooling::last && row + 1 < states.size()) continue;
    if (model.pooling == model::Pooling::cls && row > 0) continue;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += states[row][i];
  }
  double square = 0;
  for (const double value : sum) square += value * value;
  std::vector<float> embedding;
  for (const double value : sum) embedding.push_back(float(value / std::sqrt(square)));
  return embedding;
}

// What a constraint allows, by trying every token.
class AllowedAlone {
 public:
  explicit AllowedAlone(const engine::Constrained& constraint)
      : of_(constraint), at_(constraint.masks->grammar()), words_((of_.masks->vocabulary().size() + 31) / 32) {}

  // Empty: no token.
  const std::vector<uint32_t>& find() {
    words_.assign(words_.size(), 0);
    bool any = false;
    for (uint32_t token = 0; token < of_.masks->vocabulary().size(); ++token) {
      grammar::Position behind = at_;
      const std::string& text = of_.masks->vocabulary()[token];
      const bool allowed = ends(token) ? at_.may_end() : !text.empty() && behind.take(text);
      if (allowed) words_[token / 32] |= 1u << token % 32;
      any |= allowed;
    }
    if (!any) words_.clear();
    return words_;
  }
  bool may_end() const { return at_.may_end(); }
  bool take(uint32_t token) {  // whether it is the end
    if (ends(token)) return true;
    EXPECT_TRUE(at_.take(of_.masks->vocabulary()[token]));
    return at_.must_end();
  }

 private:
  bool ends(uint32_t token) const { return std::ranges::find(of_.end_tokens, token) != of_.end_tokens.end(); }

  const engine::Constrained& of_;
  grammar::Position at_;
  std::vector<uint32_t> words_;
};

inline Answer answer_alone(const model::Model& model, const engine::Request& request, uint32_t index = 0,
                           uint32_t context = ~0u) {
  context = std::min(context, model.context);
  engine::Sampler sampler(request.sampling, model.vocabulary);
  for (const uint32_t token : request.prompt) sampler.accept(token, engine::Origin::prompt);
  sampler.reseed(sampler.seed() + index);
  Answer answer;
  Reading reading;
  uint32_t position = 0;
  std::vector<float> logits(model.vocabulary);
  std::vector<std::vector<float>> states;
  for (const uint32_t token : request.prompt) {
    if (request.prompt_logprobs)
      answer.prompt_picks.push_back(position ? engine::score(logits, token, *request.prompt_logprobs)
                                             : engine::Pick{.id = token});
    reading.read(reading.next(token, position++));
    if (request.prompt_logprobs) reading.logits(model, logits);
    if (request.embed) reading.state(states.emplace_back(model.width));
  }
  if (request.embed) {
    answer.embedding = pooled_alone(model, states);
    answer.finish_reason = engine::FinishReason::stop;
    return answer;
  }
  if (request.max_tokens == 0) {
    answer.finish_reason = engine::FinishReason::length;
    return answer;
  }
  std::vector<uint32_t> generated;
  std::optional<AllowedAlone> allowed;
  if (request.constraint) allowed.emplace(*request.constraint);
  while (true) {
    reading.logits(model, logits);
    if (allowed && allowed->find().empty()) {
      answer.finish_reason = allowed->may_end() ? engine::FinishReason::stop : engine::FinishReason::failed;
      return answer;
    }
    answer.picks.push_back(sampler.pick(logits, allowed ? std::span(allowed->find()) : std::span<const uint32_t>()));
    generated.push_back(answer.picks.back().id);
    sampler.accept(generated.back());
    if (allowed && allowed->take(generated.back())) answer.finish_reason = engine::FinishReason::stop;
    for (const auto& stop : request.stops)
      if (stop.size() <= generated.size() &&
          std::equal(stop.begin(), stop.end(), generated.end() - ptrdiff_t(stop.size())))
        answer.finish_reason = engine::FinishReason::stop;
    if (answer.finish_reason == engine::FinishReason::none && generated.size() == request.max_tokens)
      answer.finish_reason = engine::FinishReason::length;
    if (answer.finish_reason == engine::FinishReason::none && position == context)
      answer.finish_reason = engine::FinishReason::context;
    if (answer.finish_reason != engine::FinishReason::none) return answer;
    reading.read(reading.next(generated.back(), position++));
  }
}

}  // namespace heddle::test::fake

// The chain of steps, then the draw.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/numbers.h"

namespace heddle::engine {
namespace {

enum Purpose : uint64_t { draw_token, draw_xtc };  // of random bits

bool is_cut(Step step) { return step >= Step::top_n_sigma && step <= Step::xtc; }

// Memory for one pick, one per thread: 2 MB at 128256 tokens is too much for one per sequence.
Candidates& scratch() {
  thread_local Candidates candidates;
  return candidates;
}

Sampling validated(Sampling sampling, uint32_t vocabulary) {
  validate(sampling, vocabulary);
  return sampling;
}

// Fills in the log-probabilities of the picked token and of the `count` most likely candidates.
void report(Candidates& candidates, uint32_t count, Pick& pick) {
  const double total = log_of(candidates.weigh());
  const float largest = candidates.largest();
  const auto log_probability = [&](float logit) { return float(double(logit - largest) - total); };
  candidates.change(pick.id, [&](float logit) {
    pick.log_probability = log_probability(logit);
    return logit;
  });
  if (count == 0) return;
  candidates.keep_largest(count);
  for (size_t i = 0; i < candidates.size(); ++i)
    if (const float logit = candidates.logits()[i]; !std::isinf(logit))
      pick.top.push_back({candidates.id(i), log_probability(logit)});
  std::stable_sort(pick.top.begin(), pick.top.end(),
                   [](const auto& a, const auto& b) { return a.log_probability > b.log_probability; });
}

}  // namespace

Pick score(std::span<const float> logits, uint32_t token, uint32_t top) {
  Candidates& candidates = scratch();
  candidates.start(logits);
  Pick pick{.id = token};
  report(candidates, top, pick);
  return pick;
}

struct Sampler::Plan {
  Plan(Sampling given, uint32_t tokens)
      : sampling(validated(std::move(given), tokens)),
        vocabulary(tokens),
        steps(steps_of(sampling)),
        breakers(sampling.dry_breakers),
        repetition(sampling.repetition_penalty != 1 && sampling.repetition_last_n != 0),
        counted(sampling.presence_penalty != 0 || sampling.frequency_penalty != 0),
        dry(sampling.dry_multiplier > 0 && sampling.dry_penalty_last_n != 0) {
    if (sampling.mirostat) std::erase_if(steps, is_cut);
  }

  Sampling sampling;
  uint32_t vocabulary;
  std::vector<Step> steps;
  Breakers breakers;
  bool repetition, counted, dry;  // which of the steps that look at earlier tokens are on
};

Sampler::Sampler(Sampling sampling, uint32_t vocabulary)
    : plan_(std::make_shared<Plan>(std::move(sampling), vocabulary)),
      seed_(plan_->sampling.seed ? *plan_->sampling.seed : random_seed()),
      surprise_limit_(2 * plan_->sampling.mirostat_tau),
      repetition_window_(plan_->repetition ? plan_->sampling.repetition_last_n : 0),
      dry_window_(plan_->dry ? plan_->sampling.dry_penalty_last_n : 0) {}

const Sampling& Sampler::sampling() const { return plan_->sampling; }

void Sampler::reseed(uint64_t seed) {
  seed_ = seed;
  picks_ = 0;
}

void Sampler::accept(uint32_t token, Origin origin) {
  check(token < plan_->vocabulary, "a token of the vocabulary");
  if (plan_->counted && origin == Origin::generated) ++counts_[token].generated;
  if (plan_->dry) dry_window_.push(token);
  if (!plan_->repetition) return;
  ++counts_[token].seen;
  if (const auto left = repetition_window_.push(token)) {
    const auto found = counts_.find(*left);
    if (--found->second.seen == 0 && found->second.generated == 0) counts_.erase(found);
  }
}

void Sampler::apply_penalties(Candidates& candidates) const {
  const Sampling& s = plan_->sampling;
  for (const auto& [token, counts] : counts_)
    candidates.change(token, [&, &count = counts](float logit) {
      if (count.seen) logit = logit > 0 ? logit / s.repetition_penalty : logit * s.repetition_penalty;
      if (count.generated) logit -= s.presence_penalty + float(count.generated) * s.frequency_penalty;
      return logit;
    });
}

void Sampler::apply_dry(Candidates& candidates) const {
  if (!plan_->dry) return;
  const Sampling& s = plan_->sampling;
  const auto text = dry_window_.tokens();
  const size_t limit = plan_->breakers.tokens_after(text);
  for (const auto& [token, length] : prolonged_repetitions(text, s.dry_allowed_length, limit)) {
    if (plan_->breakers.is_one(token)) continue;
    const double penalty =
        double(s.dry_multiplier) * power_of(double(s.dry_base), double(length - s.dry_allowed_length));
    // not to -infinity, which would be a ban
    candidates.change(token, [&](float logit) { return logit - float(std::min(penalty, 1e30)); });
  }
}

void Sampler::apply(Step step, Candidates& candidates) const {
  const Sampling& s = plan_->sampling;
  switch (step) {
    case Step::logit_bias:
      for (const auto& [token, bias] : s.logit_bias)
        candidates.change(token, [by = bias](float logit) { return logit + by; });
      return;
    case Step::penalties:
      return apply_penalties(candidates);
    case Step::dry:
      return apply_dry(candidates);
    case Step::top_n_sigma:
      return cut_top_n_sigma(candidates, s);
    case Step::top_k:
      return cut_top_k(candidates, s);
    case Step::typical_p:
      return cut_typical_p(candidates, s);
    case Step::top_p:
      return cut_top_p(candidates, s);
    case Step::min_p:
      return cut_min_p(candidates, s);
    case Step::xtc:
      return cut_xtc(candidates, s, uniform(random_bits(seed_, picks_, draw_xtc)));
    case Step::temperature:
      return apply_temperature(candidates, s);
  }
}

Pick Sampler::pick(std::span<const float> logits, std::span<const uint32_t> allowed) {
  check(logits.size() == plan_->vocabulary, "as many logits as tokens");
  const Sampling& s = plan_->sampling;
  Candidates& candidates = scratch();
  candidates.start(logits);
  if (!allowed.empty()) candidates.keep_allowed(allowed);
  for (const Step step : plan_->steps) apply(step, candidates);
  if (s.mirostat) cut_surprise(candidates, s, surprise_limit_);

  const double total = candidates.weigh();
  const size_t drawn = candidates.draw(uniform(random_bits(seed_, picks_++, draw_token)));
  Pick pick{.id = candidates.id(drawn)};
  if (s.mirostat) {
    const double below = double(candidates.largest()) - double(candidates.logits()[drawn]);
    const double surprise = (log_of(total) + below) / log_of(2);
    surprise_limit_ -= s.mirostat_eta * float(surprise - double(s.mirostat_tau));
  }
  if (s.logprobs) {
    if (!s.logprobs_after) candidates.start(logits);
    report(candidates, *s.logprobs, pick);
  }
  return pick;
}

namespace {

// Whether a step that is named in the order has an effect.
bool is_on(Step step, const Sampling& s) {
  switch (step) {
    case Step::logit_bias:
      return !s.logit_bias.empty();
    case Step::penalties:
      return (s.repetition_penalty != 1 && s.repetition_last_n != 0) || s.presence_penalty != 0 ||
             s.frequency_penalty != 0;
    case Step::dry:
      return s.dry_multiplier > 0 && s.dry_penalty_last_n != 0;
    case Step::top_n_sigma:
      return s.top_n_sigma > 0;
    case Step::top_k:
      return s.top_k > 0;
    case Step::typical_p:
      return s.typical_p < 1;
    case Step::top_p:
      return s.top_p < 1;
    case Step::min_p:
      return s.min_p > 0;
    case Step::xtc:
      return s.xtc_probability > 0 && s.xtc_threshold <= 0.5f;
    case Step::temperature:
      return s.temperature != 1 || s.dynamic_range > 0;
  }
  return true;
}

// False: the device does not have this step.
bool put(Step step, const Sampling& s, model::Picking& to) {
  switch (step) {
    case Step::logit_bias:
      to.biases.assign(s.logit_bias.begin(), s.logit_bias.end());
      return true;
    case Step::penalties:
      to.repetition_last = s.repetition_last_n < 0 ? ~0u : uint32_t(s.repetition_last_n);
      to.repetition = to.repetition_last ? s.repetition_penalty : 1;
      to.presence = s.presence_penalty;
      to.frequency = s.frequency_penalty;
      return true;
    case Step::top_k:
      to.top_k = uint32_t(s.top_k);
      return true;
    case Step::top_p:
      to.top_p = s.top_p;
      return true;
    case Step::min_p:
      to.log_min_p = log_of(double(s.min_p));
      return true;
    case Step::temperature:
      to.temperature = s.temperature;
      return s.dynamic_range <= 0;
    case Step::dry:
    case Step::top_n_sigma:
    case Step::typical_p:
    case Step::xtc:
      return false;
  }
  return false;
}

}  // namespace

std::optional<model::Picking> device_picking(const Sampler& sampler) {
  const Sampling& s = sampler.sampling();
  if (s.mirostat || s.min_keep > 1) return std::nullopt;
  if (s.logprobs && s.logprobs_after) return std::nullopt;
  model::Picking picking;
  picking.temperature = 1;
  std::optional<Step> last;
  for (const Step step : steps_of(s)) {
    if (!is_on(step, s)) continue;
    if ((last && step < *last) || !put(step, s, picking)) return std::nullopt;
    last = step;
  }
  picking.seed = sampler.seed();
  picking.logprob = s.logprobs.has_value();
  picking.top = s.logprobs.value_or(0);
  return picking;
}

}  // namespace heddle::engine

// The sampler of one sequence: it picks the next token from a row of logits and the tokens so far. device_picking()
// says how a device would pick the same.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/history.h"
#include "engine/sampling/sampling.h"
#include "model/backend.h"

namespace heddle::engine {

class Candidates;

struct TokenLogprob {
  uint32_t id = 0;
  float log_probability = 0;
};

struct Pick {
  uint32_t id = 0;
  // Set if Sampling::logprobs is: in the model's own distribution, the softmax of the logits before constraints,
  // biases, penalties, temperature and cuts (as in OpenAI's API), or with logprobs_after in the distribution the token
  // was drawn from.
  float log_probability = 0;
  std::vector<TokenLogprob> top;  // the most likely first, the lowest id among equals; without those of probability 0
};

// The Pick of a token that was given, not picked: its log-probability and the `top` most likely ones, in the model's
// own distribution. Throws as Sampler::pick does.
Pick score(std::span<const float> logits, uint32_t token, uint32_t top);

enum class Origin { prompt, generated };

// Deterministic: picks depend on Sampling, seed, accepted tokens and logits only, on every machine and with every
// compiler. Sums of weights are exact, exp and log are heddle's own, and draws are a function of the seed and of the
// number of picks before. A copy is small (the tokens that penalties look at) and picks the same: reseed() it.
class Sampler {
 public:
  Sampler(Sampling sampling, uint32_t vocabulary);  // throws an Error if validate() does

  // Every token of the text, also those it picked. Presence and frequency penalties count generated ones only.
  void accept(uint32_t token, Origin origin = Origin::generated);

  // From `vocabulary` logits. Throws an Error if one is NaN or +infinity, or if all are -infinity (or banned). Does not
  // accept the token. `allowed`: a bit for each token that may be picked, before all steps of the chain; empty: all.
  Pick pick(std::span<const float> logits, std::span<const uint32_t> allowed = {});

  const Sampling& sampling() const;
  uint64_t seed() const { return seed_; }  // as given, or the random one
  void reseed(uint64_t seed);              // and counts picks from 0
  uint64_t picks() const { return picks_; }
  void skip_pick() { ++picks_; }  // a device has picked in its place

 private:
  struct Plan;

  void apply(Step step, Candidates& candidates) const;
  void apply_penalties(Candidates& candidates) const;
  void apply_dry(Candidates& candidates) const;

  std::shared_ptr<const Plan> plan_;  // the constant part, shared by copies
  uint64_t seed_;
  uint64_t picks_ = 0;
  float surprise_limit_;  // mirostat's mu, in bits
  TokenWindow repetition_window_, dry_window_;
  CountOfToken counts_;
};

// What Sampler would pick, for a device. Unset if the chain has a step, or an order of steps, that only the host has.
// The text, its prompt and the number of picks are for the caller to fill in.
std::optional<model::Picking> device_picking(const Sampler& sampler);

}  // namespace heddle::engine

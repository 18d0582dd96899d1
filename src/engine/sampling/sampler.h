// One sequence's sampler: from a row of logits and the tokens so far to the next token.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sampling/sampling.h"
#include "engine/sampling/sampling_history.h"

namespace heddle::engine {

class Candidates;

struct TokenLogprob {
  uint32_t id = 0;
  float log_probability = 0;
};

struct Pick {
  uint32_t id = 0;
  // Set if Sampling::logprobs is. By default of the model's own distribution, softmax of the logits as given, before
  // biases, penalties, temperature and cuts (as in OpenAI's API); with logprobs_after of the distribution the token
  // was drawn from.
  float log_probability = 0;
  std::vector<TokenLogprob> top;  // the most likely first, the lowest id among equals; those of probability 0 left out
};

// What a Pick says of a token that was given, not picked: its log-probability and the `top` most likely ones, by the
// model's own distribution. Throws as Sampler::pick does.
Pick score(std::span<const float> logits, uint32_t token, uint32_t top);

enum class Origin { prompt, generated };

// Deterministic: ids depend on Sampling, seed, tokens accepted and logits alone, on every machine and with every
// compiler: sums of weights are exact, exp and log are heddle's own, and draws are a function of seed and of how many
// picks came before. Copies are small (the tokens a penalty looks at) and go on alike: reseed() one of them.
class Sampler {
 public:
  Sampler(Sampling sampling, uint32_t vocabulary);  // throws an Error if validate() does

  // Every token of the text, those picked as well. Presence and frequency penalties count generated ones only.
  void accept(uint32_t token, Origin origin = Origin::generated);

  // `vocabulary` logits. Throws an Error if one is NaN or +infinity, or if all are -infinity (or banned). Nothing is
  // accepted by it.
  Pick pick(std::span<const float> logits);

  const Sampling& sampling() const;
  uint64_t seed() const { return seed_; }  // as given, or the random one
  void reseed(uint64_t seed);              // and begins to count picks anew
  uint64_t picks() const { return picks_; }
  void skip_pick() { ++picks_; }  // a device made one in its place

 private:
  struct Plan;

  void apply(Step step, Candidates& candidates) const;
  void apply_penalties(Candidates& candidates) const;
  void apply_dry(Candidates& candidates) const;

  std::shared_ptr<const Plan> plan_;  // what does not change, shared by copies
  uint64_t seed_;
  uint64_t picks_ = 0;
  float surprise_limit_;  // mirostat's mu, in bits
  TokenWindow repetition_window_, dry_window_;
  CountOfToken counts_;
};

}  // namespace heddle::engine

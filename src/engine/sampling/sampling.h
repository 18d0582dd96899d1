// The parameters of sampling, as plain data. docs/sampling.md describes them for users.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::engine {

// The steps of the chain. Those from top_n_sigma to xtc cut candidates, the others change logits.
enum class Step { logit_bias, penalties, dry, top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature };

std::string_view name_of(Step step);
std::vector<std::string> default_order();  // every step, in the order of the enum

// By default no step does anything: a token is drawn from the model's own distribution.
struct Sampling {
  float temperature = 1;            // logits are divided by it; 0: the most likely token (greedy)
  float dynamic_range = 0;          // above 0: temperature +- range, by the entropy of the candidates
  float dynamic_exponent = 1;       // of the normalised entropy in that
  int32_t top_k = 0;                // the k most likely; 0 or -1: off
  float top_p = 1;                  // the fewest of the most likely tokens that sum to p; 1: off
  float min_p = 0;                  // those at least min_p times as likely as the most likely; 0: off
  float typical_p = 1;              // the fewest tokens of most typical surprise that sum to more than p; 1: off
  float top_n_sigma = 0;            // logits within n standard deviations of the largest; 0 or less: off
  float xtc_probability = 0;        // how often XTC is applied; 0: off
  float xtc_threshold = 0.1f;       // of the tokens at least this likely only the least likely is kept; above 0.5: off
  uint32_t min_keep = 1;            // a step that cuts leaves at least this many candidates
  int32_t mirostat = 0;             // 2: mirostat 2 in place of the steps that cut; 0: off
  float mirostat_tau = 5;           // its target surprise, in bits
  float mirostat_eta = 0.1f;        // its learning rate
  float repetition_penalty = 1;     // logits of tokens seen are divided by it, or multiplied if below 0; 1: off
  int32_t repetition_last_n = 64;   // the last tokens that count as seen, prompt included; -1: all, 0: off
  float presence_penalty = 0;       // subtracted from the logits of tokens generated before, prompt not included
  float frequency_penalty = 0;      // subtracted once forevery occurrence
  float dry_multiplier = 0;         // of the penalty on a token that would prolong a repetition; 0: off
  float dry_base = 1.75f;           // penalty: multiplier * base ^ (length of the repetition - allowed_length)
  uint32_t dry_allowed_length = 2;  // shorter repetitions are free
  int32_t dry_penalty_last_n =
      -1;  // the last tokens that are searched for repetitions, prompt included; -1: all, 0: off
  std::vector<std::vector<uint32_t>> dry_breakers;   // token sequences that end a repetition
  std::map<uint32_t, float> logit_bias;              // added to logits; -infinity forbids the token
  std::optional<uint64_t> seed;                      // unset: a random one, see Sampler::seed()
  std::vector<std::string> order = default_order();  // names of steps; a step that is not named is not applied
  std::optional<uint32_t> logprobs;  // set: log-probabilities of the token picked and of this many most likely ones
  bool logprobs_after = false;       // of the distribution after the chain, not of the logits as given
};

// Throws an Error that names the field, what was expected and what was found.
void validate(const Sampling& sampling, uint32_t vocabulary);

// Sampling::order as steps. Throws an Error for a name that is unknown or occurs twice.
std::vector<Step> steps_of(const Sampling& sampling);

}  // namespace heddle::engine

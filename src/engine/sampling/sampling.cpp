// The ranges of sampling parameters, and the names of the steps.
#include "engine/sampling/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace heddle::engine {
namespace {

constexpr std::array<std::string_view, 10> step_names = {
    "logit_bias", "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature"};

// Both ends are in the range; NaN is in none. The lower end is compared as a float, because 0.01f is below 0.01.
void in_range(std::string_view field, double found, double low, double high) {
  if (found >= float(low) && found <= high) return;
  const bool open = high >= std::numeric_limits<float>::max();
  throw Error("sampling: {}: expected {}, found {}", field,
              open ? fmt::format("a number of at least {}", low) : fmt::format("{} to {}", low, high), found);
}

constexpr double any = std::numeric_limits<float>::max();  // any finite number

void validate_tokens(const Sampling& s, uint32_t vocabulary) {
  for (const auto& [id, bias] : s.logit_bias) {
    if (id >= vocabulary) throw Error("sampling: logit_bias: expected token ids below {}, found {}", vocabulary, id);
    if (!(bias <= std::numeric_limits<float>::max()))
      throw Error("sampling: logit_bias of token {}: expected a finite number or -infinity, found {}", id, bias);
  }
  for (const auto& breaker : s.dry_breakers) {
    if (breaker.empty()) throw Error("sampling: dry_breakers: expected at least one token in each, found none");
    for (const uint32_t id : breaker)
      if (id >= vocabulary)
        throw Error("sampling: dry_breakers: expected token ids below {}, found {}", vocabulary, id);
  }
}

}  // namespace

std::string_view name_of(Step step) { return step_names.at(size_t(step)); }

std::vector<std::string> default_order() { return {step_names.begin(), step_names.end()}; }

std::vector<Step> steps_of(const Sampling& sampling) {
  std::vector<Step> steps;
  for (const std::string& name : sampling.order) {
    const auto found = std::find(step_names.begin(), step_names.end(), name);
    if (found == step_names.end())
      throw Error("sampling: order: expected names among {}, found \"{}\"", fmt::join(step_names, ", "), name);
    const Step step = Step(found - step_names.begin());
    if (std::find(steps.begin(), steps.end(), step) != steps.end())
      throw Error("sampling: order: expected every step once, found \"{}\" twice", name);
    steps.push_back(step);
  }
  return steps;
}

void validate(const Sampling& s, uint32_t vocabulary) {
  if (vocabulary == 0) throw Error("sampling: expected a vocabulary of at least 1 token, found none");
  in_range("temperature", s.temperature, 0, any);
  in_range("dynamic_range", s.dynamic_range, 0, any);
  in_range("dynamic_exponent", s.dynamic_exponent, 0, any);
  in_range("top_k", s.top_k, -1, std::numeric_limits<int32_t>::max());
  in_range("top_p", s.top_p, 0, 1);
  in_range("min_p", s.min_p, 0, 1);
  in_range("typical_p", s.typical_p, 0, 1);
  in_range("top_n_sigma", s.top_n_sigma, -any, any);
  in_range("xtc_probability", s.xtc_probability, 0, 1);
  in_range("xtc_threshold", s.xtc_threshold, 0, 1);
  in_range("min_keep", s.min_keep, 1, vocabulary);
  if (s.mirostat != 0 && s.mirostat != 2)
    throw Error("sampling: mirostat: expected 0 (off) or 2, found {}", s.mirostat);
  in_range("mirostat_tau", s.mirostat_tau, 0, any);
  in_range("mirostat_eta", s.mirostat_eta, 0, 1);
  in_range("repetition_penalty", s.repetition_penalty, 0.01, 100);
  in_range("repetition_last_n", s.repetition_last_n, -1, std::numeric_limits<int32_t>::max());
  in_range("presence_penalty", s.presence_penalty, -2, 2);
  in_range("frequency_penalty", s.frequency_penalty, -2, 2);
  in_range("dry_multiplier", s.dry_multiplier, 0, any);
  in_range("dry_base", s.dry_base, 1, any);
  in_range("dry_allowed_length", s.dry_allowed_length, 1, std::numeric_limits<int32_t>::max());
  in_range("dry_penalty_last_n", s.dry_penalty_last_n, -1, std::numeric_limits<int32_t>::max());
  if (s.logprobs) in_range("logprobs", *s.logprobs, 0, vocabulary);
  validate_tokens(s, vocabulary);
  steps_of(s);
}

}  // namespace heddle::engine

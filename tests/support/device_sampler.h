// For backends that stand in for a device: the sampler that picks what a device with this Picking picks.
#pragma once
#include <cmath>

#include "engine/sampling/sampler.h"
#include "model/backend.h"

namespace heddle::test {

inline engine::Sampler sampler_of(const model::Picking& p, uint32_t vocabulary) {
  engine::Sampling s{.temperature = p.temperature, .top_k = int32_t(p.top_k), .top_p = p.top_p};
  s.min_p = std::isinf(p.log_min_p) ? 0 : float(std::exp(p.log_min_p));
  s.repetition_penalty = p.repetition;
  s.repetition_last_n = p.repetition_last == ~0u ? -1 : int32_t(p.repetition_last);
  s.presence_penalty = p.presence;
  s.frequency_penalty = p.frequency;
  s.logit_bias.insert(p.biases.begin(), p.biases.end());
  s.seed = p.seed;
  if (p.logprob) s.logprobs = 0;
  engine::Sampler sampler(s, vocabulary);
  for (uint64_t i = 0; i < p.picks; ++i) sampler.skip_pick();
  for (size_t i = 0; i < p.text.size(); ++i)
    sampler.accept(p.text[i], i < p.prompt ? engine::Origin::prompt : engine::Origin::generated);
  return sampler;
}

}  // namespace heddle::test

// A step matters only if it is named in the order and has an effect.
#include "engine/sampling/device_picking.h"

#include "engine/sampling/numbers.h"

namespace heddle::engine {
namespace {

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

std::optional<model::Picking> device_picking(const Sampler& sampler, std::span<const uint32_t> text, uint32_t prompt) {
  const Sampling& s = sampler.sampling();
  if (s.mirostat || s.min_keep > 1) return std::nullopt;
  if (s.logprobs && (*s.logprobs > 0 || s.logprobs_after)) return std::nullopt;
  model::Picking picking;
  picking.temperature = 1;
  std::optional<Step> last;
  for (const Step step : steps_of(s)) {
    if (!is_on(step, s)) continue;
    if ((last && step < *last) || !put(step, s, picking)) return std::nullopt;
    last = step;
  }
  picking.seed = sampler.seed();
  picking.picks = text.size() - prompt;
  picking.text.assign(text.begin(), text.end());
  picking.prompt = prompt;
  picking.logprob = s.logprobs.has_value();
  return picking;
}

}  // namespace heddle::engine

// What a new token changes, and when it is the last one.
#include "engine/sequence.h"

#include "engine/sampling/device_picking.h"

namespace heddle::engine {

Sequence::Sequence(Task& of, uint32_t number, Sampler its) : task(of), index(number), sampler(std::move(its)) {
  if (task.request.trace) steps = std::make_shared<std::vector<StepTime>>();
  picking = device_picking(sampler, {}, 0);
  has_penalties = picking && picking->has_penalties();
}

void Sequence::index_prompt() {
  if (speculates && generated == 0) lookup.accept(tokens);
}

void Sequence::share_prompt(const Sequence& first) {
  tokens = first.tokens;
  lookup = first.lookup;
  cached_tokens = first.known();
  timing = first.timing;
  step = first.step;
  in_step = first.in_step;
  if (steps) *steps = *first.steps;
}

void Sequence::accept(uint32_t token) {
  tokens.push_back(token);
  sampler.accept(token);
  if (speculates) lookup.accept(token);
  ++generated;
}

std::optional<FinishReason> Sequence::finish_reason(uint32_t context) const {
  const auto ends_with = [&](const std::vector<uint32_t>& stop) {
    return stop.size() <= generated && std::equal(stop.rbegin(), stop.rend(), tokens.rbegin());
  };
  const Request& request = task.request;
  if (std::any_of(request.stops.begin(), request.stops.end(), ends_with)) return FinishReason::stop;
  if (generated == request.max_tokens) return FinishReason::length;
  if (known() > context) return FinishReason::context;
  return std::nullopt;
}

Timing Sequence::timing_at(double end) const {
  Timing all = timing;
  const double started = task.started.value_or(end), first = generated > 0 ? first_token_at : end;
  all.queue = started - task.arrival;
  all.prompt = first - started;
  all.generating = end - first;
  return all;
}

}  // namespace heddle::engine

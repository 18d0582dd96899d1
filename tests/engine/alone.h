// What a request gets when it has the fake model for itself: a plain loop, one token after the other.
#pragma once
#include "engine/request.h"
#include "tests/engine/fake_backend.h"

namespace heddle::test::fake {

struct Answer {
  std::vector<engine::Pick> picks;
  engine::Ending ending = engine::Ending::none;
  std::string reason;
  uint32_t prompt = 0, reused = 0, made = 0;

  std::vector<uint32_t> tokens() const {
    std::vector<uint32_t> ids;
    for (const engine::Pick& pick : picks) ids.push_back(pick.id);
    return ids;
  }
};

inline Answer answer_alone(const model::Model& model, const engine::Request& request, uint32_t copy = 0,
                           uint32_t context = ~0u) {
  context = std::min(context, model.context);
  engine::Sampler sampler(request.sampling, model.vocabulary);
  for (const uint32_t token : request.prompt) sampler.accept(token, engine::Origin::prompt);
  sampler.reseed(sampler.seed() + copy);
  Answer answer;
  Reading reading;
  uint32_t position = 0;
  for (const uint32_t token : request.prompt) reading.read(reading.next(token, position++));
  std::vector<float> logits(model.vocabulary);
  std::vector<uint32_t> made;
  while (true) {
    reading.logits(model, logits);
    answer.picks.push_back(sampler.pick(logits));
    made.push_back(answer.picks.back().id);
    sampler.accept(made.back());
    for (const auto& stop : request.stops)
      if (stop.size() <= made.size() && std::equal(stop.begin(), stop.end(), made.end() - ptrdiff_t(stop.size())))
        answer.ending = engine::Ending::stop;
    if (answer.ending == engine::Ending::none && made.size() == request.most) answer.ending = engine::Ending::length;
    if (answer.ending == engine::Ending::none && position == context) answer.ending = engine::Ending::context;
    if (answer.ending != engine::Ending::none) return answer;
    reading.read(reading.next(made.back(), position++));
  }
}

}  // namespace heddle::test::fake

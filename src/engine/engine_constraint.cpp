// Constraints: completions begin with one, each pick is among the tokens it allows, and it ends them.
#include <algorithm>

#include "engine/engine_state.h"

namespace heddle::engine {

void Engine::State::expect_constrainable(const Request& request) const {
  if (!request.constraint->masks) throw InvalidRequest("constraint", "constraint: expected masks, found none");
  if (const size_t tokens = request.constraint->masks->vocabulary().size(); tokens != model_.vocabulary)
    throw InvalidRequest("constraint", "constraint: expected masks of {} tokens, the size of the vocabulary, found {}",
                         model_.vocabulary, tokens);
  for (const uint32_t token : request.constraint->end_tokens)
    if (token >= model_.vocabulary)
      throw InvalidRequest("constraint", "constraint: expected end tokens below {}, found {}", model_.vocabulary,
                           token);
}

// Not before a request is taken, because masks are used by the thread that steps alone.
void Engine::State::start_constraint(Task& task) {
  if (!task.request.constraint) return;
  try {
    const grammar::Constraint start(task.request.constraint->masks, task.request.constraint->end_tokens,
                                    task.request.constraint->budget);
    for (const auto& s : task.completions) s->constraint = start;
  } catch (const std::exception& error) {
    for (const auto& s : task.completions) request_end(*s, FinishReason::failed, error.what());
  }
}

// Says which tokens may be picked in the batch that was launched last, while the device computes it; the tokens before
// it are known. A batch that follows it can then be launched, so that the device has work while its tokens are read.
void Engine::State::allow_tokens() {
  ++flight_.allowed;
  if (!flight_.constrained) return;
  masks_.clear();
  for (const Slice& slice : flight_.slices) {
    const size_t end = masks_.size() + slice.constrained;
    if (slice.sequence && slice.constrained) add_masks(*slice.sequence);
    masks_.resize(end);  // what is picked for a sequence that has ended is not used
  }
  std::vector<std::span<const uint32_t>> allowed;
  for (const grammar::TokenMask& mask : masks_) allowed.emplace_back(mask.bits());
  const OnDevice timed(*this);
  backend_.allow(allowed);
}

// Of its next token, and of those after its proposals.
void Engine::State::add_masks(Sequence& s) {
  s.stuck.clear();
  try {
    grammar::Constraint at = *s.constraint;
    for (size_t i = 0; i <= s.proposed.size(); ++i) {
      if (i > 0) check(at.take(s.proposed[i - 1]), "proposals that the constraint allows");
      grammar::TokenMask mask = at.mask();
      s.stuck.push_back(mask.none());
      masks_.push_back(s.stuck.back() ? grammar::TokenMask() : std::move(mask));
    }
  } catch (const std::exception& error) {
    fail(s.task, error.what());
  }
}

// Its constraint allows no token: the text is complete, or the vocabulary has no token for what must follow.
void Engine::State::end_constraint(Sequence& s) {
  if (!s.constraint->may_end())
    throw Error("after {} tokens the constraint can only be kept with a token that the vocabulary does not have",
                s.generated);
  end(s, FinishReason::stop);
}

}  // namespace heddle::engine

#include "grammar/constraint.h"

#include <algorithm>

namespace heddle::grammar {

Constraint::Constraint(std::shared_ptr<TokenMasks> masks, std::vector<uint32_t> end_tokens)
    : masks_(std::move(masks)), end_tokens_(std::move(end_tokens)), at_(masks_->grammar()) {}

bool Constraint::ends(uint32_t token) const { return std::ranges::find(end_tokens_, token) != end_tokens_.end(); }

TokenMask Constraint::mask() const {
  if (ended_) return TokenMask(masks_->vocabulary().size());
  TokenMask mask = masks_->mask(at_);
  if (at_.may_end())
    for (uint32_t token : end_tokens_) mask.set(token);
  return mask;
}

std::vector<uint32_t> Constraint::forced_tokens(const Tokenize& tokenize, std::string_view before) const {
  if (ended_) return {};
  return grammar::forced_tokens(at_, masks_->vocabulary(), tokenize, before);
}

bool Constraint::take(uint32_t token) {
  if (ended_ || token >= masks_->vocabulary().size()) return false;
  if (ends(token)) return ended_ = at_.may_end();
  const std::string& text = masks_->vocabulary()[token];
  return !text.empty() && at_.take(text);
}

}  // namespace heddle::grammar

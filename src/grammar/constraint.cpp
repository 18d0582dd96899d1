#include "grammar/constraint.h"

#include <algorithm>

namespace heddle::grammar {

Constraint::Constraint(std::shared_ptr<TokenMasks> masks, std::vector<uint32_t> end_tokens,
                       std::shared_ptr<const ThoughtBudget> budget)
    : masks_(std::move(masks)), end_tokens_(std::move(end_tokens)), at_(masks_->grammar()), budget_(std::move(budget)) {
  if (!budget_) return;
  thought_ = budget_->begin.empty() ? Thought::inside : Thought::undecided;
  if (thought_ == Thought::inside && budget_->tokens == 0) forced_ = budget_->forced;
}

// Looks for the marks of the thought, and forces its end when the budget is used up.
void Constraint::think(std::string_view text) {
  ++thinking_;
  seen_ += text;
  if (thought_ == Thought::undecided) {
    seen_.erase(0, std::min(seen_.find_first_not_of(" \n\r\t"), seen_.size()));
    if (seen_.size() < budget_->begin.size() && budget_->begin.starts_with(seen_)) return;
    thought_ = seen_.starts_with(budget_->begin) ? Thought::inside : Thought::over;
    if (thought_ == Thought::inside) seen_.erase(0, budget_->begin.size());
  }
  const std::string& end = budget_->end;
  if (seen_.find(end) != seen_.npos) thought_ = Thought::over;
  if (thought_ == Thought::over) return seen_.clear();
  size_t begun = std::min(seen_.size(), end.size() - 1);  // bytes of the mark that are there already
  while (begun > 0 && !seen_.ends_with(std::string_view(end).substr(0, begun))) --begun;
  if (thinking_ >= budget_->tokens && forced_.empty()) forced_ = begun > 0 ? end.substr(begun) : budget_->forced;
  seen_.erase(0, seen_.size() - begun);
}

// The longest token that begins what must follow.
std::optional<uint32_t> Constraint::forced_token() const {
  const Trie& trie = masks_->vocabulary().trie();
  std::optional<uint32_t> longest;
  uint32_t node = 0;
  for (const char c : forced_) {
    const auto& next = trie.node(node).next;
    const auto found = std::ranges::find(next, uint8_t(c), &std::pair<uint8_t, uint32_t>::first);
    if (found == next.end()) break;
    node = found->second;
    if (!trie.node(node).tokens.empty()) longest = trie.node(node).tokens.front();
  }
  return longest;
}

bool Constraint::ends(uint32_t token) const { return std::ranges::find(end_tokens_, token) != end_tokens_.end(); }

TokenMask Constraint::mask() const {
  if (ended_) return TokenMask(masks_->vocabulary().size());
  if (!forced_.empty()) {
    TokenMask only(masks_->vocabulary().size());
    if (const auto token = forced_token()) only.set(*token);
    return only;
  }
  TokenMask mask = masks_->mask(at_);
  if (at_.may_end())
    for (uint32_t token : end_tokens_) mask.set(token);
  return mask;
}

std::vector<uint32_t> Constraint::forced_tokens(const Tokenize& tokenize, std::string_view before) const {
  if (ended_ || !forced_.empty()) return {};
  const Languages::StepLimit limit(masks_->grammar()->languages(), masks_->grammar()->limits().steps);
  return grammar::forced_tokens(at_, masks_->vocabulary(), tokenize, before);
}

bool Constraint::take(uint32_t token) {
  if (ended_ || token >= masks_->vocabulary().size()) return false;
  if (ends(token)) return ended_ = forced_.empty() && at_.may_end();
  const std::string& text = masks_->vocabulary()[token];
  const Languages::StepLimit limit(masks_->grammar()->languages(), masks_->grammar()->limits().steps);
  if (text.empty() || (!forced_.empty() && forced_token() != token) || !at_.take(text)) return false;
  forced_.erase(0, text.size());
  if (thought_ != Thought::over) think(text);
  return true;
}

}  // namespace heddle::grammar

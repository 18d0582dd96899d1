#include "grammar/token_masks.h"

#include <algorithm>

namespace heddle::grammar {

TokenMasks::TokenMasks(std::shared_ptr<CompiledGrammar> grammar, std::shared_ptr<const Vocabulary> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

TokenMask TokenMasks::mask(const Position& at) {
  TokenMask mask(vocabulary_->size());
  const Languages::StepLimit limit(grammar_->languages(), grammar_->limits().steps);
  for (size_t i = 0; i < at.live(); ++i) {
    const TokensInside& found = inside(at.state(i));
    if (found.shared) mask |= *found.shared;
    if (!found.many.empty()) mask |= found.many;
    for (uint32_t token : found.few) mask.set(token);
    for (const auto& leave : found.leave)
      for (uint32_t token : behind(at, i, leave))
        if (!std::ranges::binary_search(found.blocked, token)) mask.set(token);
  }
  is_full_ = grammar_->added_bytes() > grammar_->limits().added_bytes / 2;
  return mask;
}

const TokensInside& TokenMasks::inside(Language state) {
  const auto found = inside_.find(state);
  if (found != inside_.end()) return *found->second;
  if (inside_bytes_ > max_bytes) {
    inside_.clear();
    inside_bytes_ = 0;
  }
  const auto& added = inside_[state] = vocabulary_->inside(grammar_->languages(), state);
  inside_bytes_ += added->bytes();
  return *added;
}

const std::vector<uint32_t>& TokenMasks::behind(const Position& at, size_t live, const TokensInside::Leave& leave) {
  const auto set = at.began_in(live);
  const uint32_t terminal = at.terminal(live);
  const auto found = std::ranges::find_if(behind_, [&](const Behind& b) {
    const bool same_set = !b.set.owner_before(set) && !set.owner_before(b.set);
    return same_set && b.terminal == terminal && b.leave == leave;
  });
  if (found != behind_.end()) return found->tokens;
  Behind added{set, terminal, leave, {}};
  walk(at.ended(live), *leave.trie, {leave.node}, added.tokens);
  if (behind_.size() < max_behind) return behind_.emplace_back(std::move(added)).tokens;
  Behind& oldest = behind_[next_behind_++ % max_behind];
  oldest = std::move(added);
  return oldest.tokens;
}

void TokenMasks::walk(const Position& at, const Trie& trie, const std::vector<uint32_t>& nodes,
                      std::vector<uint32_t>& tokens) {
  std::vector<Trie::Child> children;
  for (uint32_t node : nodes) {
    const auto next = trie.node(node).next;
    children.insert(children.end(), next.begin(), next.end());
  }
  if (nodes.size() > 1) std::ranges::stable_sort(children, {}, &Trie::Child::first);
  Languages& languages = grammar_->languages();
  languages.spend(children.size() * at.live());
  // bytes that do the same to every terminal lead to the same position
  struct Group {
    std::vector<Language> states;
    uint8_t byte;
    std::vector<uint32_t> nodes;
  };
  std::vector<Group> groups;
  std::vector<Language> states(at.live());
  for (size_t i = 0, end = 0; i < children.size(); i = end) {
    const uint8_t byte = children[i].first;
    bool can_follow = false;
    for (size_t live = 0; live < at.live(); ++live) {
      states[live] = languages.after(at.state(live), byte);
      can_follow = can_follow || states[live] != Languages::nothing;
    }
    Group* group = nullptr;
    for (end = i; end < children.size() && children[end].first == byte; ++end) {
      if (!can_follow) continue;
      const Trie::Node there = trie.node(children[end].second);
      tokens.insert(tokens.end(), there.tokens.begin(), there.tokens.end());
      if (there.next.empty()) continue;
      if (!group) {
        const auto found = std::ranges::find(groups, states, &Group::states);
        group = found != groups.end() ? &*found : &groups.emplace_back(Group{states, byte, {}});
      }
      group->nodes.push_back(children[end].second);
    }
  }
  for (const Group& group : groups) walk(at.after(group.byte), trie, group.nodes, tokens);
}

}  // namespace heddle::grammar

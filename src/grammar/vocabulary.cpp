#include "grammar/vocabulary.h"

#include <algorithm>
#include <bit>

#include "grammar/json_text.h"

namespace heddle::grammar {

TokenMask& TokenMask::operator|=(const TokenMask& other) {
  for (size_t i = 0; i < bits_.size(); ++i) bits_[i] |= other.bits_[i];
  return *this;
}

size_t TokenMask::count() const {
  size_t all = 0;
  for (uint32_t w : bits_) all += size_t(std::popcount(w));
  return all;
}

// Of a walk: tokens that stay, those that do not unlike in a state that is known, and what leaves.
struct Vocabulary::Found {
  explicit Found(size_t tokens) : stays(tokens) {}
  void add(std::span<const uint32_t> tokens) {
    stay.insert(stay.end(), tokens.begin(), tokens.end());
    for (uint32_t token : tokens) stays.set(token);
  }

  std::vector<uint32_t> stay, gone;
  TokenMask stays;  // those in `stay`
  std::vector<Trie::Entry> leave;
  std::vector<uint32_t> leave_nodes;  // with many tokens behind them
  std::vector<uint32_t> blocked;
};

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)), leaving_(tokens_.size()) {
  Languages all;
  const JsonText json(all);
  character_ = json.any_char;
  mark_ = all.text("\"");
  free_string_ = all.sequence(all.repeat(character_, 0), mark_);
  std::vector<Trie::Entry> entries;
  std::map<uint32_t, std::vector<uint32_t>> within{{0, {}}};
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].empty()) continue;
    entries.push_back({tokens_[i], i});
    sort_token(i, all, within);
  }
  trie_ = std::make_shared<const Trie>(std::move(entries));
  TokenMask up_to(tokens_.size());
  for (const auto& [length, list] : within) {
    for (uint32_t token : list) up_to.set(token);
    within_.push_back({length, up_to});
  }
  std::ranges::stable_sort(endings_, {}, [](const Ending& e) { return e.behind.text; });
  for (const Ending& e : endings_) lengths_.push_back(e.length);
  std::ranges::sort(lengths_);
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
  // what all grammars have in common is found now
  std::vector<Language> states = json.terminals(all);
  std::map<Language, std::shared_ptr<const TokensInside>> found;
  for (size_t i = 0; i < states.size(); ++i) {  // grows
    const Language state = states[i];
    if (state == Languages::nothing || state == Languages::empty || found.contains(state)) continue;
    found.emplace(state, inside(all, state));
    for (const Bytes& kind : all.kinds(state)) states.push_back(all.after(state, uint8_t(kind._Find_first())));
  }
  common_.insert(found.begin(), found.end());
}

void Vocabulary::sort_token(uint32_t token, Languages& all, std::map<uint32_t, std::vector<uint32_t>>& within) {
  const std::string& text = tokens_[token];
  uint32_t length = 0;
  Language at = character_;
  for (size_t i = 0; i < text.size(); ++i) {
    if (at == character_ && text[i] == '"') {
      endings_.push_back({length, {std::string_view(text).substr(i + 1), token}});
      if (i + 1 < text.size()) leaving_.set(token);
      return;
    }
    at = all.after(at, uint8_t(text[i]));
    if (at == Languages::nothing) return;
    if (at != Languages::empty) continue;
    at = character_;
    ++length;
  }
  // a part of a character needs room for all of it
  within[at == character_ ? length : length + 1].push_back(token);
}

Vocabulary::InString Vocabulary::in_string(uint32_t least, uint32_t most) const {
  const auto up_to = size_t(std::ranges::upper_bound(within_, most, {}, &UpTo::length) - within_.begin()) - 1;
  const auto first = size_t(std::ranges::lower_bound(lengths_, least) - lengths_.begin()),
             last = size_t(std::ranges::upper_bound(lengths_, most) - lengths_.begin());
  const std::lock_guard lock(mutex_);
  if (in_string_.size() > 500) in_string_.clear();
  InString& found = in_string_[{up_to, first, last}];
  if (found.stay) return found;
  TokenMask stay = within_[up_to].tokens;
  std::vector<Trie::Entry> leave;
  for (const auto& [length, behind] : endings_) {
    if (length < least || length > most) continue;
    if (behind.text.empty())
      stay.set(behind.token);
    else
      leave.push_back(behind);
  }
  found = {std::make_shared<const TokenMask>(std::move(stay)), std::make_shared<const Trie>(std::move(leave))};
  return found;
}

std::shared_ptr<const TokensInside> Vocabulary::inside(Languages& all, Language state) const {
  if (const auto found = common_.find(state); found != common_.end()) return found->second;
  auto inside = std::make_shared<TokensInside>();
  // in a string that only has a length, the number of characters decides
  if (const auto counted = all.counted(state, character_, mark_)) {
    const InString tokens = in_string(counted->least, counted->most);
    inside->shared = tokens.stay;
    if (!tokens.leave->empty()) inside->leave.push_back({tokens.leave, 0});
    return inside;
  }
  Found found(tokens_.size());
  // a string with other limits, such as a name that is not one of some: mostly as a free one
  size_t alike = 0;
  for (uint32_t byte = 0x20; byte < 0x80; ++byte)
    alike += all.after(state, uint8_t(byte)) == all.after(free_string_, uint8_t(byte));
  if (alike < 48) {
    walk(all, state, 0, 0, found);
    keep(std::move(found), *inside);
    return inside;
  }
  walk_difference(all, state, free_string_, 0, 0, found);
  const InString free = in_string(0, Languages::unbounded);
  inside->many = *free.stay;
  for (uint32_t token : found.stay) inside->many.set(token);
  for (uint32_t token : found.gone) inside->many.reset(token);
  inside->leave.push_back({free.leave, 0});
  std::ranges::sort(found.blocked);
  inside->blocked = std::move(found.blocked);
  keep_leaving(found, *inside);
  return inside;
}

// What longer tokens have behind this node, of which `stay` need no second way.
void Vocabulary::add_leaving(uint32_t node, size_t depth, size_t stay, Found& found) const {
  const auto tokens = trie_->tokens_from(node);
  if (tokens.size() == stay) return;  // in free text, which may end anywhere, that is at nearly every node
  if (tokens.size() - stay > 256) return found.leave_nodes.push_back(node);
  for (uint32_t token : tokens)
    if (tokens_[token].size() > depth && !found.stays[token])
      found.leave.push_back({std::string_view(tokens_[token]).substr(depth), token});
}

void Vocabulary::walk(Languages& all, Language state, uint32_t node, size_t depth, Found& found) const {
  const auto children = trie_->node(node).next;
  all.spend(children.size());
  for (const auto& [byte, next] : children) {
    const Language behind = all.after(state, byte);
    if (behind == Languages::nothing) continue;
    const Trie::Node at = trie_->node(next);
    const size_t before = found.stay.size();
    found.add(at.tokens);
    if (at.next.empty()) continue;
    if (behind != Languages::empty) walk(all, behind, next, depth + 1, found);
    if (all.has_empty(behind)) add_leaving(next, depth + 1, found.stay.size() - before, found);
  }
}

// Only what differs from a free string, of which the tokens are known: below where both are in the same state, nothing
// does.
void Vocabulary::walk_difference(Languages& all, Language state, Language known, uint32_t node, size_t depth,
                                 Found& found) const {
  const auto children = trie_->node(node).next;
  all.spend(children.size());
  for (const auto& [byte, next] : children) {
    const Language behind = all.after(state, byte), other = all.after(known, byte);
    if (behind == other) continue;
    if (behind == Languages::nothing) {
      for (uint32_t token : trie_->tokens_from(next)) {
        found.gone.push_back(token);
        if (leaving_[token]) found.blocked.push_back(token);
      }
      continue;
    }
    const Trie::Node at = trie_->node(next);
    if (other == Languages::nothing) found.add(at.tokens);
    if (all.has_empty(behind) && !all.has_empty(other)) add_leaving(next, depth + 1, 0, found);
    if (all.has_empty(other) && !all.has_empty(behind))
      for (uint32_t token : trie_->tokens_from(next))
        if (leaving_[token]) found.blocked.push_back(token);
    walk_difference(all, behind, other, next, depth + 1, found);
  }
}

void Vocabulary::keep_leaving(Found& walked, TokensInside& found) const {
  if (!walked.leave.empty()) found.leave.push_back({std::make_shared<const Trie>(std::move(walked.leave)), 0});
  for (uint32_t node : walked.leave_nodes) found.leave.push_back({trie_, node});
}

void Vocabulary::keep(Found walked, TokensInside& found) const {
  keep_leaving(walked, found);
  if (walked.stay.size() < tokens_.size() / 64) {
    found.few = std::move(walked.stay);
    return;
  }
  found.many = std::move(walked.stays);
}

}  // namespace heddle::grammar

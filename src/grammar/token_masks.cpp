#include "grammar/token_masks.h"

#include <algorithm>
#include <bit>

namespace heddle::grammar {

void Trie::add(std::string_view text, uint32_t token) {
  uint32_t at = 0;
  for (char c : text) {
    const auto byte = uint8_t(c);
    const auto by_byte = &std::pair<uint8_t, uint32_t>::first;
    const auto found = std::ranges::lower_bound(nodes_[at].next, byte, {}, by_byte);
    if (found != nodes_[at].next.end() && found->first == byte) {
      at = found->second;
      continue;
    }
    const auto added = uint32_t(nodes_.size());
    nodes_[at].next.insert(found, {byte, added});
    nodes_.emplace_back();
    at = added;
  }
  nodes_[at].tokens.push_back(token);
}

TokenMask& TokenMask::operator|=(const TokenMask& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

size_t TokenMask::count() const {
  size_t all = 0;
  for (uint32_t w : words_) all += size_t(std::popcount(w));
  return all;
}

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  for (uint32_t i = 0; i < tokens_.size(); ++i)
    if (!tokens_[i].empty()) trie_.add(tokens_[i], i);
}

TokenMasks::TokenMasks(std::shared_ptr<CompiledGrammar> grammar, std::shared_ptr<const Vocabulary> vocabulary)
    : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

TokenMask TokenMasks::mask(const Position& at) {
  TokenMask mask(vocabulary_->size());
  for (size_t i = 0; i < at.live(); ++i) {
    const Inside& found = inside(at.state(i));
    mask |= found.stay;
    if (!found.leave.empty()) walk(at.ended(i), found.leave, 0, mask);
  }
  return mask;
}

void TokenMasks::walk(const Position& at, const Trie& trie, uint32_t node, TokenMask& mask) {
  const Bytes allowed = at.next_bytes();
  for (const auto& [byte, next] : trie.node(node).next) {
    if (!allowed[byte]) continue;
    Position behind = at;
    if (!behind.take(byte)) continue;
    for (uint32_t token : trie.node(next).tokens) mask.set(token);
    walk(behind, trie, next, mask);
  }
}

const TokenMasks::Inside& TokenMasks::inside(Language state) {
  std::unique_ptr<Inside>& found = inside_[state];
  if (!found) {
    found = std::make_unique<Inside>();
    found->stay = TokenMask(vocabulary_->size());
    walk_inside(state, 0, *found);
  }
  return *found;
}

void TokenMasks::walk_inside(Language state, uint32_t node, Inside& found) {
  Languages& languages = grammar_->languages();
  for (const auto& [byte, next] : vocabulary_->trie().node(node).next) {
    const Language behind = languages.after(state, byte);
    if (languages.is_nothing(behind)) continue;
    for (uint32_t token : vocabulary_->trie().node(next).tokens) found.stay.set(token);
    if (languages.has_empty(behind)) {
      std::string text;
      add_rest(next, text, found.leave);
    }
    walk_inside(behind, next, found);
  }
}

// What longer tokens have behind a node.
void TokenMasks::add_rest(uint32_t node, std::string& text, Trie& to) {
  for (const auto& [byte, next] : vocabulary_->trie().node(node).next) {
    text.push_back(char(byte));
    for (uint32_t token : vocabulary_->trie().node(next).tokens) to.add(text, token);
    add_rest(next, text, to);
    text.pop_back();
  }
}

}  // namespace heddle::grammar

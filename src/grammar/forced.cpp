#include "grammar/forced.h"

#include <algorithm>

namespace heddle::grammar {

namespace {

// Whether a token ends behind this node of the vocabulary, by bytes that may follow.
bool can_end_behind(const Position& at, const Trie& trie, uint32_t node) {
  const Bytes allowed = at.next_bytes();
  for (const auto& [byte, next] : trie.node(node).next) {
    if (!allowed[byte]) continue;
    Position behind = at;
    if (!behind.take(byte)) continue;
    if (!trie.node(next).tokens.empty() || can_end_behind(behind, trie, next)) return true;
  }
  return false;
}

// The first byte of the text at which a token can begin that goes beyond its end, or its size.
size_t first_open(const Position& end, const Trie& trie, std::string_view text) {
  for (size_t begin = 0; begin < text.size(); ++begin) {
    uint32_t node = 0;
    bool found = true;
    for (size_t i = begin; i < text.size() && found; ++i) {
      const auto& next = trie.node(node).next;
      const auto at = std::ranges::lower_bound(next, uint8_t(text[i]), {}, &std::pair<uint8_t, uint32_t>::first);
      found = at != next.end() && at->first == uint8_t(text[i]);
      if (found) node = at->second;
    }
    if (found && can_end_behind(end, trie, node)) return begin;
  }
  return text.size();
}

// The tokens of `text` behind `before`, as far as they do not depend on more than they are given.
std::vector<uint32_t> tokens_behind(const Vocabulary& vocabulary, const Tokenize& tokenize, std::string_view before,
                                    std::string_view text) {
  const std::vector<uint32_t> all = tokenize(std::string(before) + std::string(text));
  size_t left = text.size(), first = all.size();
  while (first > 0 && left > 0) {
    const uint32_t token = all[first - 1];
    if (token >= vocabulary.size()) return {};
    const std::string& bytes = vocabulary[token];
    if (bytes.size() > left || !text.substr(0, left).ends_with(bytes)) return {};
    left -= bytes.size();
    --first;
  }
  if (left > 0) return {};
  return {all.begin() + long(first), all.end()};
}

// Tokenizers split a text by the kinds of its characters before they look for tokens: one that may follow of each kind.
std::string one_of_each_kind(const Bytes& allowed) {
  std::string all;
  for (std::string_view kind : {"abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "\n",
                                "'", "\".,:;!?()[]{}<>-_+*/\\=#$%&@^`|~"})
    if (const auto found = std::ranges::find_if(kind, [&](char c) { return allowed[uint8_t(c)]; }); found != kind.end())
      all += *found;
  return all;
}

}  // namespace

std::string forced(const Position& at, size_t max_bytes) {
  std::string text;
  Position next = at;
  while (text.size() < max_bytes && !next.may_end()) {
    const Bytes bytes = next.next_bytes();
    if (bytes.count() != 1) break;
    const auto byte = uint8_t(bytes._Find_first());
    if (!next.take(byte)) break;
    text.push_back(char(byte));
  }
  return text;
}

std::vector<uint32_t> forced_tokens(const Position& at, const Vocabulary& vocabulary, const Tokenize& tokenize,
                                    std::string_view before, size_t max_bytes) {
  const std::string text = forced(at, max_bytes);
  if (text.empty()) return {};
  std::vector<uint32_t> tokens = tokens_behind(vocabulary, tokenize, before, text);
  Position end = at;
  if (tokens.empty() || !end.take(text)) return {};

  const size_t open = first_open(end, vocabulary.trie(), text);
  size_t bytes = 0, count = 0;
  while (count < tokens.size() && bytes + vocabulary[tokens[count]].size() <= open)
    bytes += vocabulary[tokens[count++]].size();
  tokens.resize(count);
  for (char follows : one_of_each_kind(end.next_bytes())) {
    const std::vector<uint32_t> longer = tokens_behind(vocabulary, tokenize, before, text + follows);
    tokens.erase(std::ranges::mismatch(tokens, longer).in1, tokens.end());
  }
  return tokens;
}

}  // namespace heddle::grammar

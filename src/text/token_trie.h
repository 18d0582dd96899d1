// A trie of tokens over their bytes: which tokens does a text begin with?
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace heddle::text {

class TokenTrie {
 public:
  // Of equal texts the last one counts; empty ones are skipped.
  explicit TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens);

  // Calls found(length, id) for every token that `text` begins with, shortest first.
  template <class Found>
  void for_each_prefix(std::string_view text, Found found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (nodes_[node].id != none) found(i + 1, nodes_[node].id);
    }
  }
  // The longest one; a length of 0 means none.
  std::pair<size_t, TokenId> longest_prefix(std::string_view text) const {
    std::pair<size_t, TokenId> best{0, 0};
    for_each_prefix(text, [&](size_t length, TokenId id) { best = {length, id}; });
    return best;
  }

 private:
  static constexpr TokenId none = UINT32_MAX;
  struct Node {
    uint32_t first = 0, count = 0;  // its edges in labels_ and targets_
    TokenId id = none;
  };
  uint32_t child(uint32_t node, uint8_t byte) const {
    if (node == 0) return root_[byte];
    const uint8_t* begin = labels_.data() + nodes_[node].first;
    for (uint32_t low = 0, high = nodes_[node].count; low < high;) {
      const uint32_t middle = (low + high) / 2;
      if (begin[middle] == byte) return targets_[nodes_[node].first + middle];
      if (begin[middle] < byte)
        low = middle + 1;
      else
        high = middle;
    }
    return 0;
  }

  std::vector<Node> nodes_;  // the root is the first
  std::vector<uint8_t> labels_;
  std::vector<uint32_t> targets_;
  uint32_t root_[256] = {};  // children of the root: every walk begins there
};

// Built from the sorted tokens, breadth first, so that the edges of a node lie side by side.
inline TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(), [](auto& a, auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end;  // of the tokens under a node
  };
  std::vector<Range> ranges{{0, tokens.size()}};  // by node
  nodes_.emplace_back();
  size_t depth_end = 1, depth = 0;  // nodes from depth_end on lie one level deeper
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (node == depth_end) {
      depth_end = nodes_.size();
      ++depth;
    }
    auto [at, end] = ranges[node];
    for (; at < end && tokens[at].first.size() == depth; ++at)
      if (depth > 0) nodes_[node].id = tokens[at].second;
    nodes_[node].first = static_cast<uint32_t>(labels_.size());
    while (at < end) {
      const char label = tokens[at].first[depth];
      size_t next = at + 1;
      while (next < end && tokens[next].first[depth] == label) ++next;
      labels_.push_back(static_cast<uint8_t>(label));
      targets_.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.emplace_back();
      ranges.push_back({at, next});
      at = next;
    }
    nodes_[node].count = static_cast<uint32_t>(labels_.size()) - nodes_[node].first;
  }
  for (uint32_t i = 0; i < nodes_[0].count; ++i) root_[labels_[i]] = targets_[i];
}

}  // namespace heddle::text

// Built from the sorted tokens, breadth first, so that the edges of a node lie side by side.
#include "text/token_trie.h"

#include <algorithm>

namespace heddle::text {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, TokenId>> tokens) {
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

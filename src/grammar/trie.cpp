#include "grammar/trie.h"

#include <algorithm>

namespace heddle::grammar {

Trie::Trie(std::vector<Entry> entries) {
  if (!std::ranges::is_sorted(entries, {}, &Entry::text)) std::ranges::stable_sort(entries, {}, &Entry::text);
  struct Open {
    uint32_t first, last, depth;  // of entries; bytes that they share
    uint32_t child;               // where its number goes
  };
  constexpr uint32_t none = 0xffffffff;
  std::vector<Open> open{{0, uint32_t(entries.size()), 0, none}};
  while (!open.empty()) {
    auto [at, last, depth, child] = open.back();
    open.pop_back();
    if (child != none) children_[child].second = uint32_t(nodes_.size());
    nodes_.push_back({uint32_t(children_.size()), 0, uint32_t(tokens_.size()), 0});
    for (; at < last && entries[at].text.size() == depth; ++at) tokens_.push_back(entries[at].token);
    const size_t first_open = open.size();
    while (at < last) {
      const char byte = entries[at].text[depth];
      uint32_t end = at + 1;
      while (end < last && entries[end].text[depth] == byte) ++end;
      open.push_back({at, end, depth + 1, uint32_t(children_.size())});
      children_.push_back({uint8_t(byte), 0});
      ++nodes_.back().children;
      at = end;
    }
    std::reverse(open.begin() + std::ptrdiff_t(first_open), open.end());  // the first child is next
  }
  nodes_.push_back({uint32_t(children_.size()), 0, uint32_t(tokens_.size()), uint32_t(nodes_.size())});
  for (size_t i = nodes_.size() - 1; i-- > 0;) {
    Range& at = nodes_[i];
    at.end = at.children ? nodes_[children_[at.child + at.children - 1].second].end : uint32_t(i + 1);
  }
}

}  // namespace heddle::grammar

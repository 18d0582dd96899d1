// Texts by their beginnings, in flat arrays.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace heddle::grammar {

class Trie {
 public:
  using Child = std::pair<uint8_t, uint32_t>;  // byte, node
  struct Node {
    std::span<const Child> next;       // by byte, in order
    std::span<const uint32_t> tokens;  // that end here
  };
  struct Entry {
    std::string_view text;
    uint32_t token;
  };
  Trie() : Trie(std::vector<Entry>()) {}
  explicit Trie(std::vector<Entry> entries);

  // 0 is the empty text's.
  Node node(uint32_t number) const {
    const Range& at = nodes_[number];
    return {{children_.data() + at.child, at.children},
            {tokens_.data() + at.token, nodes_[number + 1].token - at.token}};
  }
  // Of this node and all behind it.
  std::span<const uint32_t> tokens_from(uint32_t number) const {
    const uint32_t first = nodes_[number].token;
    return {tokens_.data() + first, nodes_[nodes_[number].end].token - first};
  }
  bool empty() const { return tokens_.empty(); }

 private:
  struct Range {
    uint32_t child, children, token;  // the first child, how many, the first token
    uint32_t end;                     // the first node that is not behind this one
  };
  std::vector<Range> nodes_;  // depth first; one more marks the end
  std::vector<Child> children_;
  std::vector<uint32_t> tokens_;
};

}  // namespace heddle::grammar

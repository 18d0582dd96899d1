// The hash tables of byte-pair encoding, bytes -> token and pair of tokens -> merged token; and the merging itself.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace heddle::text {

// One string per id, found by its bytes. Open addressing: a lookup is one cache line of slots and one of bytes.
class PieceTable {
 public:
  static constexpr TokenId none = ~TokenId(0);

  // Empty pieces cannot be found; of equal ones the first is.
  explicit PieceTable(const std::vector<std::string>& pieces);
  TokenId find(std::string_view bytes) const;  // none: absent
  std::string_view operator[](TokenId id) const {
    return std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id]);
  }
  size_t size() const { return begins_.size() - 1; }

 private:
  struct Slot {
    uint32_t hash = 0;
    TokenId id = none;
    uint32_t begin = 0, size = 0;  // in bytes_
  };
  std::string bytes_;             // of all pieces, one after the other
  std::vector<uint32_t> begins_;  // size() + 1
  std::vector<Slot> slots_;       // a power of two
  unsigned shift_ = 0;            // of a 64-bit hash, to a slot
};

class MergeTable {
 public:
  static constexpr uint32_t never = ~uint32_t(0);
  struct Joined {
    uint32_t rank = never;
    TokenId id = 0;
  };

  explicit MergeTable(size_t count);
  void add(TokenId left, TokenId right, Joined joined);  // at most `count` times; of equal pairs the lower rank stays
  Joined find(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = place(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.joined;
      if (slot.key == empty) return {};
    }
  }

 private:
  static constexpr uint64_t empty = ~uint64_t(0);
  struct Slot {
    uint64_t key = empty;
    Joined joined;
  };
  static uint64_t key_of(TokenId left, TokenId right) { return uint64_t(left) << 32 | right; }
  size_t place(uint64_t key) const { return size_t((key * 0x9E3779B97F4A7C15) >> shift_); }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  unsigned shift_ = 0;
};

// Joins the neighbours with the lowest rank, the leftmost of equal ones, until no pair can be joined; shortens `tokens`
// in place. O(n log n).
void merge_tokens(const MergeTable& merges, std::vector<TokenId>& tokens);

}  // namespace heddle::text

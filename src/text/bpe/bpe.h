// Byte-pair encoding with ranked merges: the neighbours whose merge has the lowest rank are joined, leftmost first,
// until no more can be. SentencePiece's BPE is the same with scores in place of ranks. Also its hash tables, and
// GPT-2's spelling of bytes as visible characters.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline.h"
#include "text/vocabulary.h"

namespace heddle::text {

struct Merge {
  TokenId left = 0, right = 0;
  TokenId joined = 0;
  uint32_t rank = 0;  // the position in the list of merges; of equal pairs the lower one counts
};

struct BpeOptions {
  bool characters = false;     // begin with characters instead of bytes
  bool ignore_merges = false;  // a piece that is a token is taken as it is
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  std::vector<TokenId>
      byte_tokens;                 // byte fallback: 256 tokens for the bytes of characters without a token, with holes
  std::optional<TokenId> unknown;  // for characters without a token
  bool skip_unknown = false;       // without `unknown`: skip such characters instead of throwing an Error
  std::optional<size_t> tokens;    // the number of `pieces` that are tokens; the rest are only parts of tokens
};

// `pieces`: by id, the text of each token in the model's input (raw bytes where it begins with bytes); empty for tokens
// that are never found there (control tokens). Of equal ones the first counts.
// `source` names the file in errors.
std::unique_ptr<const Model> make_bpe(std::vector<std::string> pieces, const std::vector<Merge>& merges,
                                      BpeOptions options, std::string source);

// One string per id, found by its bytes. Open addressing: a lookup is one cache line of slots and one of bytes.
class PieceTable {
 public:
  static constexpr TokenId none = no_token;

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

// GPT-2's spelling of bytes as visible characters: a space is U+0120, so that vocabularies can be text files.
// "\u0120the" -> " the"; unset if a character stands for no byte.
std::optional<std::string> byte_level_bytes(std::string_view spelling);
std::string byte_level_spelling(std::string_view bytes);

}  // namespace heddle::text

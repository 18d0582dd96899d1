// The hash tables of byte-pair encoding, and the merging itself.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/bpe.h"

namespace heddle::text {
namespace {

// A power of two with at least a third of the slots free, so that searches end soon.
size_t slots_for(size_t count) { return std::bit_ceil(count + count / 2 + 2); }
unsigned shift_for(size_t slots) { return 64 - unsigned(std::countr_zero(slots)); }

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 32;
}

template <class Word>
uint64_t word_at(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Eight bytes at a time; the rest in two overlapping loads.
uint64_t hash_of(std::string_view text) {
  const char* bytes = text.data();
  size_t left = text.size();
  uint64_t hash = left * 0xD6E8FEB86659FD93;
  for (; left > 8; left -= 8, bytes += 8) hash = mix(hash, word_at<uint64_t>(bytes));
  if (left >= 4) {
    hash = mix(hash, word_at<uint32_t>(bytes) | word_at<uint32_t>(bytes + left - 4) << 32);
  } else if (left > 0) {
    const auto byte = [&](size_t i) { return uint64_t(uint8_t(bytes[i])); };
    hash = mix(hash, byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16);
  }
  return hash * 0xD6E8FEB86659FD93;
}

}  // namespace

PieceTable::PieceTable(const std::vector<std::string>& pieces) {
  size_t total = 0;
  for (const std::string& piece : pieces) total += piece.size();
  if (total > UINT32_MAX) throw Error("a vocabulary of {} bytes is too large", total);
  bytes_.reserve(total);
  begins_.reserve(pieces.size() + 1);
  slots_.resize(slots_for(pieces.size()));
  shift_ = shift_for(slots_.size());
  begins_.push_back(0);
  for (const std::string& piece : pieces) {
    const TokenId id = TokenId(begins_.size() - 1);
    bytes_ += piece;
    begins_.push_back(uint32_t(bytes_.size()));
    if (piece.empty() || find(piece) != none) continue;
    const uint64_t hash = hash_of(piece);
    size_t at = size_t(hash >> shift_);
    while (slots_[at].id != none) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {uint32_t(hash), id, begins_[id], uint32_t(piece.size())};
  }
}

TokenId PieceTable::find(std::string_view bytes) const {
  const uint64_t hash = hash_of(bytes);
  for (size_t at = size_t(hash >> shift_);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.id == none) return none;
    if (slot.hash == uint32_t(hash) && slot.size == bytes.size() &&
        std::memcmp(bytes_.data() + slot.begin, bytes.data(), bytes.size()) == 0)
      return slot.id;
  }
}

MergeTable::MergeTable(size_t count)
    : slots_(slots_for(count)), mask_(slots_.size() - 1), shift_(shift_for(slots_.size())) {}

void MergeTable::add(TokenId left, TokenId right, Joined joined) {
  const uint64_t key = key_of(left, right);
  check(key != empty, "a pair of tokens that is kept for empty slots");
  size_t at = place(key);
  while (slots_[at].key != empty && slots_[at].key != key) at = (at + 1) & mask_;
  Slot& slot = slots_[at];
  if (slot.key == key && slot.joined.rank <= joined.rank) return;
  slot = {key, joined};
}

namespace {

// Up to this length looking at all pairs is faster than a heap (English words have 5 bytes).
constexpr size_t max_scan = 48;

// Looks for the lowest rank among all pairs, joins it and closes the gap.
void merge_by_scan(const MergeTable& merges, std::vector<TokenId>& tokens) {
  std::array<MergeTable::Joined, max_scan> pairs;  // of tokens i and i + 1
  TokenId* const token = tokens.data();
  size_t count = tokens.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(token[i], token[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == MergeTable::never) break;
    token[best] = pairs[best].id;
    std::copy(token + best + 2, token + count, token + best + 1);
    std::copy(pairs.begin() + ptrdiff_t(best) + 1, pairs.begin() + ptrdiff_t(count) - 1,
              pairs.begin() + ptrdiff_t(best));
    --count;
    if (best + 1 < count) pairs[best] = merges.find(token[best], token[best + 1]);
    if (best > 0) pairs[best - 1] = merges.find(token[best - 1], token[best]);
  }
  tokens.resize(count);
}

// A linked list of tokens, and a heap of pairs: the rank above, the place of the left token below. An entry is stale
// when the pair at its place has another rank by now.
class HeapMerge {
 public:
  HeapMerge(const MergeTable& merges, std::vector<TokenId>& tokens) : merges_(merges), tokens_(tokens) {
    check(tokens.size() < end, "more tokens than the heap can number");
    const uint32_t count = uint32_t(tokens.size());
    links_.resize(count);
    pairs_.resize(count);
    for (uint32_t i = 0; i < count; ++i) links_[i] = {i == 0 ? end : i - 1, i + 1 == count ? end : i + 1};
    for (uint32_t i = 0; i + 1 < count; ++i) {
      pairs_[i] = merges.find(tokens[i], tokens[i + 1]);
      if (pairs_[i].rank != MergeTable::never) heap_.push_back(entry(i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  void run() {
    while (!heap_.empty()) {
      const uint64_t lowest = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>{});
      heap_.pop_back();
      const uint32_t at = uint32_t(lowest);
      if (pairs_[at].rank == lowest >> 32) join(at);
    }
    size_t count = 0;
    for (uint32_t i = 0; i != end; i = links_[i].next) tokens_[count++] = tokens_[i];
    tokens_.resize(count);
  }

 private:
  static constexpr uint32_t end = std::numeric_limits<uint32_t>::max();
  struct Link {
    uint32_t previous, next;
  };

  uint64_t entry(uint32_t at) const { return uint64_t(pairs_[at].rank) << 32 | at; }

  void join(uint32_t at) {
    const uint32_t gone = links_[at].next;
    tokens_[at] = pairs_[at].id;
    pairs_[gone].rank = MergeTable::never;
    links_[at].next = links_[gone].next;
    if (links_[at].next != end) links_[links_[at].next].previous = at;
    look_at(at);
    if (links_[at].previous != end) look_at(links_[at].previous);
  }

  void look_at(uint32_t at) {
    const uint32_t next = links_[at].next;
    pairs_[at] = next == end ? MergeTable::Joined{} : merges_.find(tokens_[at], tokens_[next]);
    if (pairs_[at].rank == MergeTable::never) return;
    heap_.push_back(entry(at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>{});
  }

  const MergeTable& merges_;
  std::vector<TokenId>& tokens_;
  std::vector<Link> links_;
  std::vector<MergeTable::Joined> pairs_;  // of the token here and the next one
  std::vector<uint64_t> heap_;
};

}  // namespace

void merge_tokens(const MergeTable& merges, std::vector<TokenId>& tokens) {
  if (tokens.size() <= max_scan)
    merge_by_scan(merges, tokens);
  else
    HeapMerge(merges, tokens).run();
}

namespace {

// Bytes that are visible characters of Latin-1 stand for themselves; the others, in order, are U+0100 and on.
constexpr bool is_visible(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::array<char16_t, 256> spelling_of = [] {
  std::array<char16_t, 256> out{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) out[byte] = is_visible(byte) ? char16_t(byte) : next++;
  return out;
}();

constexpr std::array<int16_t, 0x144> bytes_of = [] {  // by character; -1: stands for no byte
  std::array<int16_t, 0x144> out{};
  for (auto& byte : out) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) out[spelling_of[byte]] = int16_t(byte);
  return out;
}();

}  // namespace

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
  std::string out;
  out.reserve(spelling.size());
  for (size_t at = 0; at < spelling.size();) {
    const CodePoint point = code_point_at(spelling, at);
    if (!point.valid || point.value >= bytes_of.size() || bytes_of[point.value] < 0) return std::nullopt;
    out.push_back(char(bytes_of[point.value]));
    at += point.bytes;
  }
  return out;
}

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, spelling_of[uint8_t(byte)]);
  return out;
}

}  // namespace heddle::text

#include "text/bpe/bpe_tables.h"

#include <bit>
#include <cstring>

#include "base/error.h"

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

}  // namespace heddle::text

// What penalties need of the tokens so far: windows, counts, and repetitions (DRY).
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling/sampling.h"

namespace heddle::engine {

// The last n tokens, in order.
class TokenWindow {
 public:
  explicit TokenWindow(int32_t last_n) : limit_(last_n < 0 ? SIZE_MAX : size_t(last_n)) {}

  std::optional<uint32_t> push(uint32_t token);  // returns the token that left the window
  std::span<const uint32_t> tokens() const;

 private:
  size_t limit_;
  std::vector<uint32_t> tokens_;  // the window is its end; up to twice the limit, so a push takes constant time
};

struct TokenCounts {
  uint32_t seen = 0;       // in the window of the repetition penalty
  uint32_t generated = 0;  // in the whole text
};
using CountOfToken = std::unordered_map<uint32_t, TokenCounts>;

// Sequences that end a repetition, found by their last token.
class Breakers {
 public:
  explicit Breakers(const std::vector<std::vector<uint32_t>>& sequences);

  bool is_one(uint32_t token) const;                          // whether the token alone is a breaker
  size_t tokens_after(std::span<const uint32_t> text) const;  // the last breaker; the whole text if there is none

 private:
  std::unordered_map<uint32_t, std::vector<std::vector<uint32_t>>> by_last_;
};

inline std::optional<uint32_t> TokenWindow::push(uint32_t token) {
  if (limit_ == 0) return {};
  std::optional<uint32_t> leaves;
  if (tokens_.size() >= limit_) leaves = tokens_[tokens_.size() - limit_];
  if (leaves && tokens_.size() >= 2 * limit_)
    tokens_.erase(tokens_.begin(), tokens_.end() - ptrdiff_t(limit_) + 1);  // with the new token, the window is full
  tokens_.push_back(token);
  return leaves;
}

inline std::span<const uint32_t> TokenWindow::tokens() const {
  return std::span(tokens_).last(std::min(tokens_.size(), limit_));
}

inline Breakers::Breakers(const std::vector<std::vector<uint32_t>>& sequences) {
  for (const auto& sequence : sequences) by_last_[sequence.back()].push_back(sequence);
}

inline bool Breakers::is_one(uint32_t token) const {
  const auto found = by_last_.find(token);
  return found != by_last_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [](const auto& s) { return s.size() == 1; });
}

inline size_t Breakers::tokens_after(std::span<const uint32_t> text) const {
  if (by_last_.empty()) return text.size();
  for (size_t end = text.size(); end > 0; --end) {
    const auto found = by_last_.find(text[end - 1]);
    if (found == by_last_.end()) continue;
    for (const auto& sequence : found->second)
      if (sequence.size() <= end &&
          std::equal(sequence.begin(), sequence.end(), text.begin() + ptrdiff_t(end - sequence.size())))
        return text.size() - end;
  }
  return text.size();
}

// For every token that would prolong a repetition: the length of the longest one it would prolong, if that is at least
// `allowed`. A repetition is an end of `text` that also occurs earlier in it; at most `limit` tokens of it count. Takes
// linear time, by the Z function of the text read backwards.
inline std::unordered_map<uint32_t, size_t> prolonged_repetitions(std::span<const uint32_t> text, size_t allowed,
                                                                  size_t limit) {
  std::unordered_map<uint32_t, size_t> longest;
  if (limit < allowed) return longest;
  const size_t size = text.size();
  const auto backwards = [&](size_t i) { return text[size - 1 - i]; };
  std::vector<size_t> same(size);  // how many tokens before position k (from the end) are those before the end
  size_t left = 0, right = 0;      // [left, right) is known to be equal to [0, right - left)
  for (size_t k = 1; k < size; ++k) {
    size_t length = k < right ? std::min(right - k, same[k - left]) : 0;
    while (k + length < size && backwards(length) == backwards(k + length)) ++length;
    same[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
    const size_t counted = std::min(length, limit);
    if (counted < allowed) continue;
    size_t& known = longest[backwards(k - 1)];
    known = std::max(known, counted);
  }
  return longest;
}

}  // namespace heddle::engine

// What penalties need of the tokens so far: windows, counts, and repetitions (DRY).
#pragma once
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

// For every token that would prolong a repetition: the length of the longest one it would prolong, if that is at least
// `allowed`. A repetition is an end of `text` that also occurs earlier in it; at most `limit` tokens of it count. Takes
// linear time.
std::unordered_map<uint32_t, size_t> prolonged_repetitions(std::span<const uint32_t> text, size_t allowed,
                                                           size_t limit);

}  // namespace heddle::engine

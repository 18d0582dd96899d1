// The tokens so far, as far as penalties need them: windows, counts, and repetitions (DRY).
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

  std::optional<uint32_t> push(uint32_t token);  // the token that left for it
  std::span<const uint32_t> tokens() const;

 private:
  size_t limit_;
  std::vector<uint32_t> tokens_;  // its end; at most twice the limit, so that a push takes constant time on average
};

struct TokenCounts {
  uint32_t seen = 0;       // in the window of the repetition penalty
  uint32_t generated = 0;  // ever
};
using CountOfToken = std::unordered_map<uint32_t, TokenCounts>;

// Sequences that end a repetition, found by their last token.
class Breakers {
 public:
  explicit Breakers(const std::vector<std::vector<uint32_t>>& sequences);

  bool is_one(uint32_t token) const;                          // the token alone
  size_t tokens_after(std::span<const uint32_t> text) const;  // the last breaker; all of them if there is none

 private:
  std::unordered_map<uint32_t, std::vector<std::vector<uint32_t>>> by_last_;
};

// For every token that would prolong a repetition: the length of the longest one it would prolong, if that is at
// least `allowed`. A repetition is an end of `text` that stands in it before, at most `limit` tokens of it. Linear.
std::unordered_map<uint32_t, size_t> prolonged_repetitions(std::span<const uint32_t> text, size_t allowed,
                                                           size_t limit);

}  // namespace heddle::engine

// Speculative decoding: PromptLookup proposes tokens without a second model, because a text that repeats itself is
// expected to go on as it did before. Payoff decides whether a proposal pays, of a lookup or of a draft (draft.h).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::engine {

// Finds the latest earlier occurrence of the last 4, 3 or 2 tokens of the text, and what followed it. About 30 bytes
// per token; a token takes constant time on average.
class PromptLookup {
 public:
  void accept(uint32_t token);  // every token of the text, beginning with the prompt
  void accept(std::span<const uint32_t> tokens);

  // `count` tokens; if the earlier occurrence reaches the end of the text, the proposal repeats itself. Empty: the last
  // tokens of the text have not occurred before.
  std::vector<uint32_t> propose(uint32_t count) const;

 private:
  static constexpr uint32_t shortest = 2, longest = 4;

  // From n tokens to the position after their latest place. Open addressing, at most half full.
  struct Table {
    std::vector<uint32_t> slots;  // 0: free
    uint32_t used = 0;
  };

  uint32_t& slot_of(Table& table, uint32_t length, uint32_t after) const;
  void grow(Table& table, uint32_t length) const;

  std::vector<uint32_t> text_;
  std::array<Table, longest - shortest + 1> tables_;
  std::array<uint32_t, longest - shortest + 1> found_{};  // per length: the position after the earlier place; 0: none
};

// The cost of a proposal, in units of the time that a token of this sequence takes without any. If a step of 5
// sequences takes 10 ms and each row adds 0.1 ms, a row costs 0.1 / (10 / 5) = 0.05.
struct Price {
  double row = 0;   // per token proposed
  double once = 0;  // for any number of them
};

// How many tokens to propose for one sequence, by how many of the last ones were accepted. If the next token is
// accepted with probability p, k proposals give 1 + p + ... + p^k tokens at the price of 1 + once + k * row. The k with
// the best rate is taken if that is a tenth better than plain steps. Otherwise it pauses: for 16 tokens at first, and
// twice as long after every further try that did not pay, up to 512.
class Payoff {
 public:
  // `prior`: the probability before anything was proposed.
  explicit Payoff(uint32_t max_proposals = 8, double prior = 0.5)
      : max_proposals_(max_proposals), accepted_(2 * prior) {}

  uint32_t next(const Price& price);                         // before every step: how many to propose
  void add(uint32_t proposed, uint32_t accepted);            // after every step with proposals
  double probability() const { return accepted_ / tried_; }  // p
  double expect(uint32_t count) const;                       // how many of them to be accepted
  bool trying() const { return trying_; }                    // the next proposals are to learn p again
  double rate(uint32_t count, const Price& price) const;     // tokens per price, of which plain steps have 1

 private:
  uint32_t max_proposals_;
  double accepted_, tried_ = 2;           // recent proposals
  uint32_t pause_ = 16, pause_left_ = 0;  // tokens
  bool trying_ = false;                   // after a pause, until a proposal is rejected
};

}  // namespace heddle::engine

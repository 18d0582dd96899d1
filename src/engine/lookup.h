// Guessing ahead without a second model: text that repeats itself goes on as it did before. Lookup finds where it did,
// Payoff says whether to bother.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::engine {

// The latest earlier place of the longest end of the text, of 4 to 2 tokens, and what followed there. About 30 bytes
// per token; a token takes constant time on average. Copies go on by themselves.
class Lookup {
 public:
  void accept(uint32_t token);  // every token of the text, the prompt first
  void accept(std::span<const uint32_t> tokens);

  // Empty: the end of the text is new. Otherwise `most` tokens: where the earlier place runs into the end of the text,
  // what is proposed goes on repeating itself.
  std::vector<uint32_t> propose(uint32_t most) const;

 private:
  static constexpr uint32_t shortest = 2, longest = 4;

  // From n tokens to the position after their latest place: open addressing, at most half full.
  struct Table {
    std::vector<uint32_t> slots;  // 0: free
    uint32_t used = 0;
  };

  uint32_t& slot_of(Table& table, uint32_t length, uint32_t after) const;
  void grow(Table& table, uint32_t length) const;

  std::vector<uint32_t> text_;
  std::array<Table, longest - shortest + 1> tables_;
  std::array<uint32_t, longest - shortest + 1> found_{};  // per length: after the earlier place of the end; 0: none
};

// What a proposal costs, in the time that a token of this sequence takes without any: of a step of 10 ms for 5
// sequences to which each row adds 0.1 ms, a row costs 0.1 / (10 / 5) = 0.05.
struct Price {
  double row = 0;   // each token proposed
  double once = 0;  // however many they are
};

// How many tokens to propose for one sequence, by how many of the last ones were right. With a chance p for the next
// token, k of them make 1 + p + ... + p^k tokens at the price of 1 + once + k * row: the k with the best rate is taken
// if that is better than plain steps by a tenth. Otherwise it pauses, for 16 tokens at first and up to 512, twice as
// long after every look that did not find it worth while.
class Payoff {
 public:
  explicit Payoff(uint32_t most = 8) : most_(most) {}

  uint32_t next(const Price& price);                 // before every step; 0: not now
  void add(uint32_t proposed, uint32_t accepted);    // after every step that proposed something
  double chance() const { return right_ / tried_; }  // p

 private:
  uint32_t most_;
  double right_ = 1, tried_ = 2;          // of late
  uint32_t pause_ = 16, pause_left_ = 0;  // tokens
  bool looking_ = false;                  // after a pause, until a proposal is wrong
};

}  // namespace heddle::engine

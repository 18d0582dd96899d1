// What goes into the engine and what comes out of it: token ids, never text.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/sampler.h"

namespace heddle::engine {

using RequestId = uint64_t;

enum class Speculation { automatic, off, on };  // automatic: on while it pays

struct Request {
  std::vector<uint32_t> prompt;
  Sampling sampling;
  uint32_t most = 0;                         // new tokens at most; 0: until the context is full
  std::vector<std::vector<uint32_t>> stops;  // token sequences that end it; they are given out like all others
  uint32_t copies = 1;                       // answers to the same prompt; copy i has seed + i
  int priority = 0;                          // higher goes first; nobody waits for ever
  Speculation speculation = Speculation::automatic;
  bool reuse = true;  // of what others with the same beginning have computed, and by others of what this one computes
};

enum class Ending {
  none,
  stop,       // one of its stops
  length,     // `most`
  context,    // the context is full
  cancelled,  // by cancel(), or because its callback threw
  failed,     // see Event::reason
};

// A token, or the end of a copy. Of each copy: its tokens in order, then one end without a token.
struct Event {
  RequestId request = 0;
  uint32_t copy = 0;
  Ending ending = Ending::none;  // none: a token came
  Pick pick;
  std::string reason;               // failed, cancelled
  uint32_t prompt = 0, reused = 0;  // at the end: tokens of the prompt, and those of them that were not computed again
  uint32_t made = 0;                // at the end: tokens given out
};
using OnEvent = std::function<void(const Event&)>;

}  // namespace heddle::engine

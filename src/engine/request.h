// What goes into the engine and what comes out of it: token ids, never text.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/sampling/sampler.h"

namespace heddle::engine {

using RequestId = uint64_t;

enum class Speculation { automatic, off, on };  // automatic: on while it pays
inline std::optional<Speculation> speculation_named(std::string_view name) {
  if (name == "auto") return Speculation::automatic;
  if (name == "off") return Speculation::off;
  if (name == "on") return Speculation::on;
  return std::nullopt;
}

constexpr uint32_t no_limit = UINT32_MAX;

struct Request {
  std::vector<uint32_t> prompt;
  Sampling sampling;
  uint32_t max_tokens = no_limit;            // new tokens at most; no_limit: until the context is full; 0: none
  std::vector<std::vector<uint32_t>> stops;  // token sequences that end it; they are given out like all others
  uint32_t n = 1;                            // answers to the same prompt; copy i has seed + i
  int priority = 0;                          // higher goes first; nobody waits for ever
  Speculation speculation = Speculation::automatic;
  bool reuse = true;  // of what others with the same beginning have computed, and by others of what this one computes
  // Set: the log-probability of each token of the prompt after the first, and of so many most likely ones in its place.
  std::optional<uint32_t> prompt_logprobs;
  // Called from within step() with the logits after token `position` of the prompt, in order, from `logits_from` on.
  // With max_tokens = 0.
  std::function<void(uint32_t position, std::span<const float> logits)> on_prompt_logits;
  uint32_t logits_from = 0;
  bool embed = false;  // instead of an answer, the prompt's state behind the last layer, pooled as the model says
  bool trace = false;  // the end has Event::steps
};

// Thrown for a request that can never be done.
struct InvalidRequest : Error {
  template <class... Args>
  InvalidRequest(std::string which, fmt::format_string<Args...> text, Args&&... args)
      : Error(text, std::forward<Args>(args)...), field(std::move(which)) {}
  std::string field;  // of Request: "prompt", "sampling"
};

enum class FinishReason {
  none,
  stop,       // one of its stops; an embedding is there
  length,     // `most`
  context,    // the context is full
  cancelled,  // by cancel(), or because its callback threw
  failed,     // see Event::reason
};

// Where the time of a copy went, in seconds. All copies of a request have the time of its prompt.
struct Timing {
  double queue = 0;   // from submit() to the first row computed
  double prompt = 0;  // from there to the first token, or to the end where there is none
  double making = 0;  // from there to the end
  double device = 0;  // in the backend, of all steps it was in
  uint32_t steps = 0;
};
// A step that a copy was in.
struct StepTime {
  double start = 0;                      // seconds after submit()
  double seconds = 0;                    // of the step; of the last one, up to the end of the copy
  double device = 0;                     // of them, in the backend
  uint32_t rows = 0;                     // of this copy
  uint32_t generated = 0;                // tokens it got
  uint32_t all_rows = 0, sequences = 0;  // of the batch
};

// A token, or the end of a copy. Of each copy: its tokens in order, then one end without a token.
struct Event {
  RequestId request = 0;
  uint32_t index = 0;
  FinishReason finish_reason = FinishReason::none;  // none: a token came
  Pick pick;
  std::string reason;  // failed, cancelled
  // At the end: tokens of the prompt; those of them that were found in the KV cache, and those that were computed (not
  // all where it ended before); tokens generated.
  uint32_t prompt = 0, cached_tokens = 0, computed_tokens = 0;
  uint32_t generated = 0;
  // With the first event of each copy where Request::prompt_logprobs is set (not if it ends before they are all there):
  // one for each token of the prompt, the first without figures.
  std::shared_ptr<const std::vector<Pick>> prompt_picks;
  std::vector<float> embedding;  // at the end, where Request::embed is set: as many values as the model is wide
  Timing timing;                 // at the end
  std::shared_ptr<const std::vector<StepTime>> steps;  // at the end, where Request::trace is set
};
using OnEvent = std::function<void(const Event&)>;

}  // namespace heddle::engine

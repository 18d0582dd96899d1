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
#include "engine/kv_store.h"
#include "engine/sampling/sampler.h"

namespace heddle::grammar {
class TokenMasks;
struct ThoughtBudget;
}  // namespace heddle::grammar

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

// What every completion must be: a text of the grammar behind these masks. It ends where nothing can follow, or with
// one of the end tokens where the text may end. Masks may be shared by requests of one engine; its thread alone uses
// them.
struct Constrained {
  std::shared_ptr<grammar::TokenMasks> masks;
  std::vector<uint32_t> end_tokens = {};
  // By the model's tokenizer, so that speculation can propose text that the grammar forces; may be empty. Called by the
  // engine's thread.
  std::function<std::vector<uint32_t>(std::string_view text)> tokenize = {};
  std::shared_ptr<const grammar::ThoughtBudget> budget = nullptr;  // null: thoughts end where they end
};

struct Request {
  std::vector<uint32_t> prompt;
  Sampling sampling;
  uint32_t max_tokens = no_limit;  // to generate; no_limit: until the context is full
  std::vector<std::vector<uint32_t>>
      stops;  // token sequences that end a completion; they are emitted like other tokens
  std::optional<Constrained> constraint;
  uint32_t n = 1;        // completions of the same prompt; completion i has seed + i
  int priority = 0;      // higher goes first; no request waits forever
  uint64_t client = 0;   // the requester; clients share time and memory equally when they are scarce
  uint32_t ordinal = 0;  // how many other completions the client asked for together with these, and before them
  Speculation speculation = Speculation::automatic;
  bool reuse = true;  // takes part in the prefix cache: reads from it, and leaves there what it computes
  // Set: report the log-probability of each prompt token after the first, and of this many most likely ones in its
  // place.
  std::optional<uint32_t> prompt_logprobs;
  // Called from within step() with the logits after prompt token `position`, in order, from `logits_from` on. Needs
  // max_tokens = 0.
  std::function<void(uint32_t position, std::span<const float> logits)> on_prompt_logits;
  uint32_t logits_from = 0;
  bool embed = false;  // no completion; the prompt's states after the last layer, pooled as the model says
  bool pool = true;    // with `embed`; otherwise the states of all its tokens as they are
  bool rank = false;   // no completion; what the model's classifier says of the prompt, which is two texts
  // Token types (segments) of the prompt, one per token; empty: the first for all.
  std::vector<uint32_t> types;
  bool trace = false;  // the last event has Event::steps
  // Of an engine with a store. `offers`: the last event of the first completion has Event::offer. `source`: where the
  // KV of its prompt is, null: nowhere else.
  bool offers = false;
  std::shared_ptr<KvSource> source = nullptr;

  bool generates() const { return max_tokens > 0 && !embed && !rank; }  // more than the prompt is wanted
};

// Thrown for a request that can never be computed.
struct InvalidRequest : Error {
  template <class... Args>
  InvalidRequest(std::string which, fmt::format_string<Args...> text, Args&&... args)
      : Error(text, std::forward<Args>(args)...), field(std::move(which)) {}
  std::string field;  // of Request: "prompt", "sampling"
};

enum class FinishReason {
  none,
  stop,       // one of Request::stops, the end of its constraint, or finish(); or embedding or rank are computed
  length,     // max_tokens
  context,    // the context is full
  cancelled,  // by cancel(), or because its callback threw
  failed,     // see Event::reason
};

// Where the time of a completion went, in seconds. All completions of a request have the time of its prompt.
struct Timing {
  double queue = 0;       // from submit() to the first row computed
  double prompt = 0;      // from there to the first token, or to the end if there is none
  double generating = 0;  // from there to the end
  double device = 0;      // in the backend, in all steps that the completion was part of
  uint32_t steps = 0;
};
// A step that a completion was part of.
struct StepTime {
  double start = 0;                      // seconds after submit()
  double seconds = 0;                    // of the step; of the last step, up to the end of the completion
  double device = 0;                     // of these, in the backend
  uint32_t rows = 0;                     // of this completion
  uint32_t generated = 0;                // tokens of this completion
  uint32_t all_rows = 0, sequences = 0;  // of the batch
};

// A token, or the end of a completion: each completion has its tokens in order, then one event with a finish reason.
struct Event {
  RequestId request = 0;
  uint32_t index = 0;                               // of the completion
  FinishReason finish_reason = FinishReason::none;  // none: a token
  Pick pick;                                        // the token
  std::string reason;                               // failed, cancelled
  // At the end: the tokens of the prompt, how many of them were found in the KV cache, how many were computed (fewer
  // than the rest if it ended early), and the tokens generated.
  uint32_t prompt_tokens = 0, cached_tokens = 0, computed_tokens = 0;
  uint32_t generated = 0;
  // With the first event of each completion, if Request::prompt_logprobs is set and the prompt is computed: one per
  // prompt token, the first without figures.
  std::shared_ptr<const std::vector<Pick>> prompt_picks;
  // At the end, if Request::embed is set: of length 1, (embedding_width()); without Request::pool (tokens, width).
  std::vector<float> embedding;
  float rank_score = 0;                                // at the end, if Request::rank is set: from 0 to 1
  Timing timing;                                       // at the end
  std::shared_ptr<const std::vector<StepTime>> steps;  // at the end, if Request::trace is set
  std::shared_ptr<const KvOffer> offer = nullptr;      // at the end, if Request::offers is set and it was not cut off
};
using OnEvent = std::function<void(const Event&)>;

}  // namespace heddle::engine

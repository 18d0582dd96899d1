// A text continued by an engine of its own, stepped on the calling thread: for run and chat.
#pragma once
#include <atomic>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "main/device/completion.h"
#include "main/device/running_model.h"

namespace heddle {

struct GenerateRequest {
  engine::Sampling sampling;
  std::vector<std::string> stop_strings;            // end the text, and are not part of it
  std::optional<engine::Constrained> constraint;    // what the text must be
  uint32_t max_tokens = engine::no_limit;           // without a limit: until the model ends or the context is full
  std::function<void(std::string_view)> show;       // the text as it comes, in whole characters
  std::function<void(const engine::Pick&)> picked;  // may be empty
  const std::atomic<bool>* interrupted = nullptr;   // looked at between steps of the engine
  const std::ostream* progress = nullptr;           // where a long prompt says how far it is, see Progress
};

struct Generated {
  using End = CompletionEnd;

  std::string text;
  End end = End::end_token;
  uint32_t prompt = 0, cached = 0, computed = 0;  // tokens of the prompt; fewer are computed where it was interrupted
  uint32_t generated = 0;
  struct Drafted {
    uint64_t proposed = 0, accepted = 0;
  };
  std::optional<Drafted> drafted;  // unset: without a draft
  double prompt_seconds = 0, generating_seconds = 0;
  uint64_t seed = 0;
};
std::string figures(const Generated& generated);  // in one line, for people

// For one user: prompts delay no other stream, and the same seed gives the same text on a GPU, too (without a draft, or
// with --deterministic).
engine::EngineOptions single_user(const RunningModel& running);

// Calls `each` with the logits after token i of the text, in order, for i from `from` on. `engine` does nothing else.
void compute_logits(engine::Engine& engine, std::vector<text::TokenId> text, uint32_t from,
                    const std::function<void(uint32_t i, std::span<const float> logits)>& each,
                    const std::function<void(uint32_t computed)>& progress = {});

class Generator {
 public:
  explicit Generator(const RunningModel& running);  // which must outlive it

  // What is still in the KV cache from before, and the prompt begins with, is not computed again. An Error, before
  // anything is computed, if the prompt is empty or leaves no room for an answer.
  Generated generate(std::span<const text::TokenId> prompt, const GenerateRequest& request);

  uint32_t length() const { return length_; }  // tokens of the last text, its prompt included
  uint32_t context() const { return engine_.context(); }
  void expect_fits(size_t tokens) const;  // the Error of generate()

 private:
  const RunningModel& running_;
  engine::Engine engine_;
  uint32_t length_ = 0;
};

}  // namespace heddle

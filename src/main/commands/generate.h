// A text continued: what is new of the prompt is computed, then one token after the other is picked. For run and chat.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling/sampler.h"
#include "main/device/running_model.h"
#include "model/session.h"

namespace heddle {

struct GenerateRequest {
  engine::Sampling sampling;
  std::vector<std::string> stops;                   // texts that end it; they are not part of it
  uint32_t tokens = 0;                              // at most; 0: until the model ends or the context is full
  std::function<void(std::string_view)> show;       // the text as it comes, in whole characters
  std::function<void(const engine::Pick&)> picked;  // may be empty
  const std::atomic<bool>* interrupted = nullptr;   // looked at between tokens and pieces of the prompt
};

enum class Ending { model, stop_text, tokens, context, interrupted };

struct Generated {
  std::string text;
  Ending ending = Ending::model;
  uint32_t prompt = 0, fed = 0, made = 0;  // tokens; fed: of the prompt, those that were not computed before
  double feeding = 0, making = 0;          // seconds
  uint64_t seed = 0;
};
std::string figures(const Generated& generated);  // in one line, for people

class Generator {
 public:
  explicit Generator(const RunningModel& running);  // which must outlive it

  // What it computed before and the prompt begins with is not computed again. An Error, before anything is computed,
  // if the prompt is empty or leaves no room for an answer.
  Generated generate(std::span<const text::TokenId> prompt, const GenerateRequest& request);

  uint32_t length() const { return session_.length(); }  // tokens computed
  uint32_t context() const { return session_.context(); }
  void expect_fits(size_t tokens) const;  // the Error of generate()

 private:
  class Next;

  std::span<const float> feed(std::span<const text::TokenId> ids);
  // The logits after the prompt; none if it was interrupted.
  std::span<const float> feed_prompt(std::span<const text::TokenId> prompt, const GenerateRequest& request,
                                     Generated& result);

  const RunningModel& running_;
  model::Session session_;
  std::vector<text::TokenId> computed_;  // by the session
};

}  // namespace heddle

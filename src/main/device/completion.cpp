#include "main/device/completion.h"

#include "base/error.h"
#include "engine/sampling/numbers.h"

namespace heddle {

using text::TokenId;

engine::Request completion_request(const RunningModel& running, std::span<const TokenId> prompt,
                                   engine::Sampling sampling, std::optional<engine::Constrained> constraint,
                                   uint32_t max_tokens) {
  if (prompt.empty()) throw Error("expected a text to continue, found an empty one (and the model has no BOS token)");
  engine::Request request{
      .prompt = {prompt.begin(), prompt.end()}, .sampling = std::move(sampling), .max_tokens = max_tokens};
  if (!request.sampling.seed) request.sampling.seed = engine::random_seed();
  for (const TokenId id : running.tokenizer().end_tokens()) request.stops.push_back({id});
  request.constraint = std::move(constraint);
  return request;
}

text::CompletionText completion_text(const RunningModel& running, std::vector<std::string> stop_strings,
                                     bool constrained) {
  text::CompletionText text(running.tokenizer(), running.tokenizer().end_tokens(), std::move(stop_strings));
  if (constrained) text.keep_first();
  return text;
}

// What the text says comes first: its end may be that of the last token that there is room for.
CompletionEnd end_of(const engine::Event& event, const text::CompletionText& text) {
  if (text.end() == text::CompletionText::End::stop_string) return CompletionEnd::stop_string;
  if (text.end() == text::CompletionText::End::end_token) return CompletionEnd::end_token;
  if (event.finish_reason == engine::FinishReason::stop) return CompletionEnd::complete;
  if (event.finish_reason == engine::FinishReason::length) return CompletionEnd::max_tokens;
  return event.finish_reason == engine::FinishReason::context ? CompletionEnd::context : CompletionEnd::interrupted;
}

}  // namespace heddle

// A completion: the engine's request for it, the text of its tokens, and how it ended.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "main/device/running_model.h"
#include "text/completion_text.h"

namespace heddle {

// complete: its constraint allows nothing more
enum class CompletionEnd { end_token, stop_string, complete, max_tokens, context, interrupted };

// Ends with the model's end tokens, and has a seed. An Error if the prompt is empty.
engine::Request completion_request(const RunningModel& running, std::span<const text::TokenId> prompt,
                                   engine::Sampling sampling, std::optional<engine::Constrained> constraint,
                                   uint32_t max_tokens);
// The model must outlive it.
text::CompletionText completion_text(const RunningModel& running, std::vector<std::string> stop_strings,
                                     bool constrained);
// `event`: the last one.
CompletionEnd end_of(const engine::Event& event, const text::CompletionText& text);

}  // namespace heddle

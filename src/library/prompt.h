// What a generation continues: a text, a conversation or tokens.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "library/options.h"
#include "main/device/running_model.h"
#include "text/template.h"

namespace heddle::library {

// An Error says what is wrong with the JSON, or why the template refuses the conversation.
text::RenderedTemplate render_chat(const RunningModel& running, const std::string& messages,
                                   const std::string& variables);
std::vector<uint32_t> prompt_tokens(const RunningModel& running, const GenerationRequest& request);

}  // namespace heddle::library

// What can be typed in a chat that is no message: /help and the others.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "main/chat/input.h"
#include "main/chat/talk.h"

namespace heddle {

// A command is done, anything else is said to the model: "//x" as "/x". False: the user wants to leave. An Error if
// there is no such command or it fails.
bool handle(ChatTalk& talk, const Input& input, std::ostream& out);

// What the line before the cursor may become: names of commands and of settings.
std::vector<std::string> completions(std::string_view line);

}  // namespace heddle

// heddle chat: a conversation with a model, in a terminal or through pipes, and the commands that can be typed in it.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "main/chat/input.h"
#include "main/chat/settings.h"
#include "main/chat/talk.h"
#include "main/device/running_model.h"

namespace heddle {

struct ChatOptions {
  std::string model;
  AnswerOptions answers;
  DeviceOptions device;
  bool no_history = false, stats = false;
};

// Returns the exit status: 1 if something was refused and the input is not a terminal, where the user sees it.
int run_chat(const ChatOptions& options, const ChatSettings& settings, std::istream& in, std::ostream& out,
             std::ostream& err);

// Runs a command such as /help, or sends anything else to the model ("//x" as "/x"). False: the user wants to leave. An
// Error if there is no such command or it fails.
bool handle(ChatTalk& talk, const Input& input, std::ostream& notices);

// Lines that the one before the cursor may become: names of commands and of settings.
std::vector<std::string> completions(std::string_view line);

}  // namespace heddle

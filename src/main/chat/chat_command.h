// heddle chat: a conversation with a model, in a terminal or through pipes.
#pragma once
#include <iosfwd>
#include <string>

#include "main/chat/settings.h"
#include "main/device/running_model.h"

namespace CLI {
class App;
}

namespace heddle {

struct ChatOptions {
  std::string model;
  AnswerOptions answers;
  DeviceOptions device;
  bool no_history = false, stats = false;
};
void describe_chat(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status);

// The exit status: 1 if something failed where nobody sat before a terminal to see it.
int chat(const ChatOptions& options, const ChatSettings& settings, std::istream& in, std::ostream& out,
         std::ostream& err);

}  // namespace heddle

// A conversation in the form that a model's template takes: how it wants arguments, thoughts and tools.
#pragma once
#include <memory>
#include <string>

#include "chat/format.h"

namespace heddle::chat {

// As requests have them, in JSON.
struct ConversationInput {
  std::string messages;   // a list: content a string or null, arguments of calls as objects
  std::string tools;      // a list, or empty
  std::string variables;  // an object, or empty
  std::string effort;     // how much to think: "none", "low", ...; empty: as the template does
};

struct PreparedConversation {
  std::string messages, tools, variables;    // for the template
  std::shared_ptr<const ChatFormat> format;  // of the answer
};

// Throws an Error where the format cannot express the conversation.
PreparedConversation prepare(std::shared_ptr<const ChatFormat> format, const ConversationInput& input);

}  // namespace heddle::chat

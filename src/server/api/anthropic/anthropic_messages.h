// Members of a body in Anthropic's API that take a file of their own: messages, and the tools that they refer to.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "server/api/json.h"

namespace heddle::server {

// Tools that the prompt does not have until a result refers to them, by their names.
struct DeferredTool {
  std::string name_place;       // of its name in the body
  nlohmann::ordered_json tool;  // in the form of OpenAI's chats
};
using DeferredTools = std::map<std::string, DeferredTool>;

struct AnthropicMessages {
  nlohmann::ordered_json messages;   // with the system prompt, in the form of OpenAI's chats
  std::set<std::string> references;  // names of deferred tools
};

// From system and messages. `body`: the same as the fields, with keys in their order.
AnthropicMessages read_anthropic_messages(Fields& fields, const nlohmann::ordered_json& body,
                                          const DeferredTools& deferred);

}  // namespace heddle::server

// The tools of a chat, and which of them may be called.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json.h"

namespace heddle::chat {
struct Tool;
using Tools = std::vector<Tool>;
}  // namespace heddle::chat

namespace heddle::server {

struct ToolUse {
  enum class Choice { automatic, required };  // required: at least one call
  std::string json;                           // the tools that may be called, a list as the body has it; empty: none
  std::shared_ptr<const chat::Tools> tools;   // the same
  Choice choice = Choice::automatic;
  bool parallel = true;  // several calls in one answer

  explicit operator bool() const { return !json.empty(); }
};

// From tools, tool_choice and parallel_tool_calls. `body`: that of the request, for the order of keys in schemas.
ToolUse read_tools(Fields& fields, std::string_view body);

// The messages of a body as JSON, in the form that chat::prepare takes.
std::string read_messages(Fields& fields);

// How much the model may think.
struct Thinking {
  std::string effort;                  // reasoning_effort; empty: as the template does
  std::optional<uint32_t> max_tokens;  // of the thought
};
Thinking read_thinking(Fields& fields);

}  // namespace heddle::server

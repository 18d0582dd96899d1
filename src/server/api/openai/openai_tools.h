// Members of a chat in OpenAI's API: messages, tools and how much the model may think.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "server/api/chat/chat.h"
#include "server/api/json.h"

namespace heddle::server {

// The mode of tool_choice: "none", "auto" (also without the field) or "required"; nothing where it is an object.
std::optional<std::string> tool_choice_mode(Fields& fields);

// From tools, tool_choice and parallel_tool_calls. `body`: that of the request, for the order of keys in schemas.
ToolUse read_tools(Fields& fields, std::string_view body);

// The messages of a body as JSON, in the form that chat::prepare takes.
std::string read_messages(Fields& fields);

Thinking read_thinking(Fields& fields);
std::string read_effort(Fields& fields, std::string_view name);  // of thinking; empty: absent

// The arguments of a call: the text of a JSON object, or the object itself, as some clients send it.
nlohmann::ordered_json read_arguments(const Json& value, const std::string& place);

}  // namespace heddle::server

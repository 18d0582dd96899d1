// The messages of /api/chat.
#pragma once
#include <string>
#include <string_view>

#include "server/api/json.h"

namespace heddle::server {

// The messages in the form of ChatRequest, as JSON; empty if there are none. `body`: that of the request.
std::string read_ollama_messages(Fields& fields, std::string_view body);

// Throws an ApiError for a field that asks for something heddle does not do, unless its value asks for nothing.
void refuse_unless_empty(Fields& fields, std::string_view name, std::string_view what);

}  // namespace heddle::server

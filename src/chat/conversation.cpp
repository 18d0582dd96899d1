#include "chat/conversation.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "chat/marks.h"

namespace heddle::chat {
namespace {

using Json = nlohmann::ordered_json;

bool has_calls(const Json& message) { return message.contains("tool_calls") && !message["tool_calls"].empty(); }

std::string content_text(const Json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>() : std::string();
}

// A template that takes one call in a message gets a message for each, each with its result behind it.
Json split_calls(const Json& messages) {
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!has_calls(messages[i]) || messages[i]["tool_calls"].size() == 1) {
      out.push_back(messages[i]);
      continue;
    }
    size_t end = i + 1;
    while (end < messages.size() && messages[end]["role"] == "tool") ++end;
    std::vector<bool> used(end - i);
    Json message = messages[i];
    for (const Json& call : messages[i]["tool_calls"]) {
      message["tool_calls"] = Json::array({call});
      out.push_back(message);
      message.erase("reasoning_content");
      message["content"] = "";
      for (size_t j = i + 1; j < end; ++j)
        if (!used[j - i] && messages[j].value("tool_call_id", "") == call.value("id", "")) {
          out.push_back(messages[j]);
          used[j - i] = true;
        }
    }
    for (size_t j = i + 1; j < end; ++j)
      if (!used[j - i]) out.push_back(messages[j]);
    i = end - 1;
  }
  return out;
}

// For a template that takes a system message only at the beginning: later ones become text of the user. Neighbours of
// the user become one message, because such templates want user and assistant in turn.
Json fold_late_system(const Json& messages) {
  Json out = Json::array();
  bool begun = false, folded = false;  // folded: the last message has text of the system
  for (const Json& message : messages) {
    const bool is_system = message["role"] == "system";
    const bool is_late = is_system && begun;
    begun |= !is_system;
    if ((is_late || (folded && message["role"] == "user")) && out.back()["role"] == "user") {
      out.back()["content"] = content_text(out.back()) + "\n\n" + content_text(message);
    } else {
      out.push_back(message);
      if (is_late) out.back()["role"] = "user";
    }
    folded = is_late || (folded && message["role"] == "user");
  }
  return out;
}

// Results carry the name of the tool that was called, which some templates write.
void name_results(Json& messages) {
  Json names = Json::object();
  for (Json& message : messages) {
    if (has_calls(message))
      for (const Json& call : message["tool_calls"]) names[call.value("id", "")] = call["function"]["name"];
    if (message["role"] == "tool" && !message.contains("name")) {
      const auto found = names.find(message.value("tool_call_id", ""));
      if (found != names.end()) message["name"] = *found;
    }
  }
}

// For a template that knows no calls: as text in the messages of user and assistant.
void write_calls_as_text(Json& message) {
  if (has_calls(message)) {
    std::string text = content_text(message);
    for (const Json& call : message["tool_calls"]) {
      if (!text.empty()) text += "\n";
      const Json& function = call["function"];
      text += fmt::format("<tool_call>\n{}\n</tool_call>",
                          Json{{"name", function["name"]}, {"arguments", function["arguments"]}}.dump());
    }
    message["content"] = text;
  }
  message.erase("tool_calls");
  if (message["role"] != "tool") return;
  message = {{"role", "user"}, {"content", "<tool_response>\n" + content_text(message) + "\n</tool_response>"}};
}
// Neighbours of one role become one message: many templates want user and assistant in turn.
Json join_results(const Json& messages) {
  Json out = Json::array();
  for (const Json& message : messages) {
    const bool is_result = message["role"] == "user" && content_text(message).starts_with("<tool_response>");
    if (is_result && !out.empty() && out.back()["role"] == "user")
      out.back()["content"] = content_text(out.back()) + "\n" + content_text(message);
    else
      out.push_back(message);
  }
  return out;
}

// A copy is moved on: a member that is added moves all others of an ordered object.
void adapt_thought(const ChatFormat& format, Json& message) {
  const auto found = message.find("reasoning_content");
  if (found == message.end() || format.thought_field == "reasoning_content") return;
  std::string thought = found->get<std::string>();
  // harmony's template has one place for what is said before a call
  if (format.calls.kind == CallFormat::Kind::harmony && has_calls(message) && !content_text(message).empty()) {
    thought += "\n" + content_text(message);
    message["content"] = "";
  }
  message[format.thought_field] = std::move(thought);
}

void adapt_message(const ChatFormat& format, Json& message) {
  adapt_thought(format, message);
  if (!has_calls(message)) {
    if (message.contains("content") && message["content"].is_null()) message["content"] = "";
    return;
  }
  if (content_text(message).empty()) {
    message.erase("content");
    if (format.content_of_calls == ContentOfCalls::empty) message["content"] = "";
    if (format.content_of_calls == ContentOfCalls::null) message["content"] = nullptr;
  }
  if (!format.arguments_as_text) return;
  for (Json& call : message["tool_calls"]) call["function"]["arguments"] = call["function"]["arguments"].dump();
}

void add_system_text(Json& messages, const std::string& text) {
  if (!messages.empty() && messages[0]["role"] == "system") {
    messages[0]["content"] = content_text(messages[0]) + "\n\n" + text;
    return;
  }
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

std::string thought_variables(const ChatFormat& format, const ConversationInput& input) {
  if (input.effort.empty()) return input.variables;
  Json variables = input.variables.empty() ? Json::object() : Json::parse(input.variables);
  const bool thinks = input.effort != "none";
  // harmony knows three efforts
  const bool is_harmony = format.calls.kind == CallFormat::Kind::harmony;
  const std::string effort = !is_harmony                                        ? input.effort
                             : !thinks || input.effort == "minimal"             ? "low"
                             : input.effort == "xhigh" || input.effort == "max" ? "high"
                                                                                : input.effort;
  if (!variables.contains("reasoning_effort") && (thinks || is_harmony)) variables["reasoning_effort"] = effort;
  if (!format.thought_switch.empty() && !variables.contains(format.thought_switch))
    variables[format.thought_switch] = thinks;
  return variables.dump();
}

}  // namespace

PreparedConversation prepare(std::shared_ptr<const ChatFormat> format, const ConversationInput& input) {
  PreparedConversation out{.variables = thought_variables(*format, input)};
  Json messages = Json::parse(input.messages);
  if (!format->late_system) messages = fold_late_system(messages);
  const bool has_tools = !input.tools.empty();
  const bool writes_calls = format->calls.kind != CallFormat::Kind::none;
  // Without tools in the template they stand in the system message; the calls are the template's own where it has any.
  const bool native = format->tools_in_template && writes_calls;
  if (has_tools && native) out.tools = input.tools;
  if (has_tools && !native) {
    const bool has_example = writes_calls && !format->example.empty();
    if (!has_example) {
      auto generic = std::make_shared<ChatFormat>(*format);
      generic->calls = generic_call_format();
      format = std::move(generic);
    }
    add_system_text(messages, generic_tool_text(input.tools, has_example ? format->example : generic_example));
  }
  name_results(messages);
  if (!writes_calls || (has_tools && !native && format->example.empty())) {
    for (Json& message : messages) write_calls_as_text(message);
    messages = join_results(messages);
  } else if (format->calls.one_call) {
    messages = split_calls(messages);
  }
  for (Json& message : messages) adapt_message(*format, message);
  out.messages = messages.dump();
  out.format = std::move(format);
  return out;
}

}  // namespace heddle::chat

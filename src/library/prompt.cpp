#include "library/prompt.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "main/chat/conversation.h"

namespace heddle::library {
namespace {

void expect_messages(const Json& list) {
  if (!list.is_array() || list.empty())
    throw Error("messages: expected a list with a message in it, found {}", shortened(list));
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) throw Error("messages[{}]: expected an object, found {}", i, shortened(list[i]));
    const auto role = list[i].find("role");
    if (role == list[i].end() || !role->is_string())
      throw Error("messages[{}]: role: expected a text, found {}", i,
                  role == list[i].end() ? "none" : shortened(*role));
  }
}

}  // namespace

text::RenderedTemplate render_chat(const RunningModel& running, const std::string& messages,
                                   const std::string& variables) {
  expect_messages(parse_json(messages, "messages"));
  if (!variables.empty())
    if (const Json json = parse_json(variables, "variables"); !json.is_object())
      throw Error("variables: expected an object, found {}", shortened(json));
  return chat_prompt(running, {.messages = messages, .variables = variables}, now_in_seconds());
}

std::vector<uint32_t> prompt_tokens(const RunningModel& running, const GenerationRequest& request) {
  if (request.prompt) return running.tokenizer().encode(*request.prompt);
  if (!request.messages) return request.tokens;
  return chat_ids(running, render_chat(running, *request.messages, request.variables), {}, request.parse_special);
}

}  // namespace heddle::library

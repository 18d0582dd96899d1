// A conversation: rendered by the model's chat template, and as a file.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "main/device/running_model.h"
#include "text/template.h"

namespace heddle {

struct Message {
  std::string role, content;  // role: system (only in the first), user or assistant
  bool operator==(const Message&) const = default;
};

// The prompt for an answer to `messages`, ending with what the template puts before an answer. `now`: seconds since
// 1970, for templates that name the date. An Error if the model has no template, or in the template's own words if it
// refuses a message.
text::RenderedTemplate chat_prompt(const RunningModel& running, const std::vector<Message>& messages, int64_t now);
// The same of a conversation in JSON.
struct ConversationTexts {
  std::string messages;   // a list of objects, as the template takes them
  std::string variables;  // an object, whose members the template sees as variables; may be empty
};
text::RenderedTemplate chat_prompt(const RunningModel& running, ConversationTexts conversation, int64_t now);
// The same as tokens, and behind it `begun`, the part of the answer that there is already. `parse_special`: the texts
// of messages may write control tokens, as the template may.
std::vector<text::TokenId> chat_ids(const RunningModel& running, const std::vector<Message>& messages, int64_t now,
                                    std::string_view begun = {}, bool parse_special = false);
std::vector<text::TokenId> chat_ids(const RunningModel& running, const text::RenderedTemplate& prompt,
                                    std::string_view begun, bool parse_special);
int64_t now_in_seconds();

struct SavedConversation {
  std::string model;
  std::vector<Message> messages;
};
// JSON: a version, the model's name, and messages as OpenAI's API has them.
void save_conversation(const std::filesystem::path& path, const SavedConversation& conversation);
// An Error names the file, what was expected and what was found.
SavedConversation load_conversation(const std::filesystem::path& path);

}  // namespace heddle

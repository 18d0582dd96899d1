// A conversation: as the model's template writes it, and as a file.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "main/device/running_model.h"

namespace heddle {

struct Message {
  std::string role, content;  // role: system (the first only), user or assistant
  bool operator==(const Message&) const = default;
};

// With the beginning of an answer. `now`: seconds since 1970, for templates that name the day. An Error if the model
// has no template, or in the template's own words if it refuses a message.
std::vector<text::TokenId> chat_ids(const RunningModel& running, const std::vector<Message>& messages, int64_t now);
int64_t now_in_seconds();

struct SavedConversation {
  std::string model;
  std::vector<Message> messages;
};
// JSON: a version, the model's name, and messages as OpenAI's API has them.
void save_conversation(const std::filesystem::path& path, const SavedConversation& conversation);
// An Error names the file and what is not as it should be.
SavedConversation load_conversation(const std::filesystem::path& path);

}  // namespace heddle

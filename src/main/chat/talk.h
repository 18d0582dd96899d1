// One conversation with a model. Whatever throws an Error here leaves the conversation as it was.
#pragma once
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "main/chat/conversation.h"
#include "main/chat/settings.h"
#include "main/commands/generate.h"

namespace heddle {

class ChatTalk {
 public:
  // The model and `out` must outlive it. On a terminal, control characters of an answer are not obeyed. An Error if the
  // model cannot chat.
  ChatTalk(const RunningModel& running, ChatSettings settings, std::ostream& out, bool terminal);

  void say(std::string message);  // and stream the answer
  void again();                   // another answer to the last message
  void undo();                    // takes back the last message and its answer
  void reset();                   // begins anew; settings stay
  void set(const std::string& name, const std::string& value);
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);  // and shows the last exchange
  void show_settings() const;
  void show_system() const;
  void show_stats() const;

  const std::vector<Message>& messages() const { return messages_; }  // without the system message
  const ChatSettings& settings() const { return settings_; }
  size_t answers() const { return answers_; }  // so far, those taken back as well
  const std::optional<Generated>& last() const { return last_; }

 private:
  std::vector<Message> with_system(const std::vector<Message>& messages, const ChatSettings& settings) const;
  void take(ChatSettings settings);            // if they are valid
  void answer(std::vector<Message> messages);  // which become the conversation, with the answer
  void show(std::string_view text) const;

  const RunningModel& running_;
  std::ostream& out_;
  bool terminal_;
  int64_t begun_;  // the day for the template: if it changed, everything would be computed again
  Generator generator_;
  ChatSettings settings_;
  engine::Sampling sampling_;      // of the settings
  std::vector<Message> messages_;  // user and assistant
  std::optional<Generated> last_;
  size_t answers_ = 0;
};

}  // namespace heddle

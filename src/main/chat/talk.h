// One conversation with a model. Whatever throws an Error here leaves the conversation as it was.
#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "main/chat/conversation.h"
#include "main/chat/dim_thoughts.h"
#include "main/chat/settings.h"
#include "main/chat/word_wrap.h"
#include "main/commands/generate.h"

namespace heddle {

// Where a chat writes. In a pipe, answers and nothing else go to standard output.
struct ChatOutput {
  std::ostream& answers;
  std::ostream& notices;          // whatever is no answer
  std::function<size_t()> width;  // of the terminal that `answers` is; empty: it is none
  bool styled = false;            // the terminal takes escape sequences: thoughts are dim
  bool terminal() const { return bool(width); }
};

class ChatTalk {
 public:
  // The model must outlive it. On a terminal, answers are wrapped at words and their control characters are not obeyed.
  // An Error if the model cannot chat.
  ChatTalk(const RunningModel& running, ChatSettings settings, ChatOutput output);

  void say(std::string message);  // and stream the answer
  void again();                   // another answer to the last message
  void go_on();                   // continues the last answer
  void drop();                    // forgets the oldest turns, and answers the message that did not fit, if there is one
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
  size_t answers() const { return answers_; }  // generated so far, also those taken back
  const std::optional<Generated>& last() const { return last_; }

 private:
  std::vector<Message> with_system(const std::vector<Message>& messages, const ChatSettings& settings) const;
  DimThoughts thoughts_of(const std::vector<Message>& messages) const;     // of the answer to them, or its rest
  std::vector<text::TokenId> ids_of(std::vector<Message> messages) const;  // up to where the model goes on
  void take(ChatSettings settings);                                        // if they are valid
  // Generates an answer to `messages`, or the rest of it if they end with one; they become the conversation.
  void answer(std::vector<Message> messages);
  void explain_ending() const;
  void notice(std::string_view text) const;  // without control characters on a terminal

  const RunningModel& running_;
  ChatOutput output_;
  int64_t begun_;  // the date for the template: a new date would change the prompt, and all of it be computed again
  Generator generator_;
  ChatSettings settings_;
  engine::Sampling sampling_;                      // of the settings
  std::optional<engine::Constrained> constraint_;  // the same
  std::vector<Message> messages_;                  // user and assistant
  std::vector<Message> refused_;                   // the same with a message that did not fit; empty: all did
  std::optional<Generated> last_;
  size_t answers_ = 0;
};

}  // namespace heddle

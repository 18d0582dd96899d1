// What a model has written, as it comes in: thoughts, content and tool calls, the same however the text is cut.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/format.h"

namespace heddle::chat {

struct Tool;
class Turn;
using Tools = std::vector<Tool>;

struct ChatEvent {
  enum class Kind : uint8_t {
    content,     // more text of the answer
    reasoning,   // more text of the thought
    call_begin,  // `text` is the name of the tool
    arguments,   // more text of the call's arguments, a JSON object
    call_end,
  };
  Kind kind;
  uint32_t call = 0;  // its number, from 0
  std::string text{};
  bool operator==(const ChatEvent&) const = default;
};

struct ParserOptions {
  bool in_thought = false;  // the prompt ends inside of a thought
  bool calls = true;        // false: what looks like a call is content
  bool any_name = true;     // false: only calls of the tools given are calls
};

// Whole characters come out, whatever goes in; nothing is lost but marks and the white space around them. What turns
// out to be no call is content. A call that breaks off keeps the arguments that it has, and the rest is content.
class ChatParser {
 public:
  ChatParser(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools, ParserOptions options = {});
  ChatParser(ChatParser&&) noexcept;
  ChatParser& operator=(ChatParser&&) noexcept;
  ~ChatParser();

  std::vector<ChatEvent> push(std::string_view text);
  std::vector<ChatEvent> finish();  // no more text comes
  uint32_t calls() const;           // that have begun

 private:
  std::unique_ptr<Turn> turn_;
  std::string tail_;  // the beginning of a character
};

}  // namespace heddle::chat

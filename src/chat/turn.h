// One answer of a model, as it is read: the inside of ChatParser.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "chat/call_reader.h"
#include "chat/parser.h"

namespace heddle::chat {

class Turn {
 public:
  Turn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools, ParserOptions options);
  virtual ~Turn() = default;

  std::vector<ChatEvent> push(std::string_view text, bool last);
  uint32_t calls() const { return sink_.calls(); }

 protected:
  // Reads on in held_; false: only more text helps.
  virtual bool step() = 0;
  virtual void end() = 0;  // of all text: what is held is content

  const std::shared_ptr<const ChatFormat> format_;
  const std::shared_ptr<const Tools> tools_;
  const ParserOptions options_;
  EventSink sink_;
  std::string held_;
  bool last_ = false;
};

std::unique_ptr<Turn> make_marked_turn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools,
                                       ParserOptions options);
std::unique_ptr<Turn> make_harmony_turn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools,
                                        ParserOptions options);

}  // namespace heddle::chat

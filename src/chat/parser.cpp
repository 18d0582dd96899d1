#include "chat/parser.h"

#include "base/utf8.h"
#include "chat/turn.h"

namespace heddle::chat {

Turn::Turn(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools, ParserOptions options)
    : format_(std::move(format)), tools_(std::move(tools)), options_(options) {}

std::vector<ChatEvent> Turn::push(std::string_view text, bool last) {
  held_ += text;
  last_ = last;
  while (step()) {
  }
  if (last) end();
  return sink_.take();
}

ChatParser::ChatParser(std::shared_ptr<const ChatFormat> format, std::shared_ptr<const Tools> tools,
                       ParserOptions options) {
  if (!tools) tools = std::make_shared<const Tools>();
  const bool harmony = format->calls.kind == CallFormat::Kind::harmony;
  turn_ = (harmony ? make_harmony_turn : make_marked_turn)(std::move(format), std::move(tools), options);
}
ChatParser::ChatParser(ChatParser&&) noexcept = default;
ChatParser& ChatParser::operator=(ChatParser&&) noexcept = default;
ChatParser::~ChatParser() = default;

// Only whole characters are looked at, so that no event ends inside of one.
std::vector<ChatEvent> ChatParser::push(std::string_view text) {
  tail_ += text;
  const size_t whole = tail_.size() - incomplete_utf8_tail(tail_);
  const std::string characters = tail_.substr(0, whole);
  tail_.erase(0, whole);
  return turn_->push(characters, false);
}

std::vector<ChatEvent> ChatParser::finish() { return turn_->push(std::exchange(tail_, {}), true); }

uint32_t ChatParser::calls() const { return turn_->calls(); }

}  // namespace heddle::chat

// The answer to a request for text, whole or as a stream of events, in the form of chats or of completions.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "server/api/replies.h"
#include "server/service/answer_text.h"
#include "server/service/exchange.h"

namespace heddle::server {

struct ReplyForm {
  bool chat = false, stream = false;
  bool usage = false;    // at the end of a stream
  bool reports = false;  // log-probabilities
};

// Choices are numbered from 0. A stream begins with the first call.
class TextReply {
 public:
  TextReply(Exchange& exchange, ReplyHead head, ReplyForm form, size_t choices);

  void add(uint32_t index, Piece piece);
  void end(uint32_t index, std::string finish);
  // All have ended. Those in `kept` are given, in that order and numbered anew; of a stream, all are.
  void finish(const Usage& usage, std::string_view trace, std::span<const uint32_t> kept);

  const std::string& finish_of(uint32_t index) const { return choices_[index].finish; }
  const std::string& text_of(uint32_t index) const {
    return choices_[index].text;
  }  // kept of whole answers, or for the log

 private:
  void start();
  void write(const std::string& json);
  void write_choice(const Choice& choice, size_t offset);

  Exchange& exchange_;
  const ReplyHead head_;
  const ReplyForm form_;
  std::vector<Choice> choices_;
  std::vector<size_t> characters_;  // of each, shown so far
};

}  // namespace heddle::server

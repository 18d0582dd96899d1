// The answers of a chat, read as they are generated: thought, content and calls are different things. A dialect's
// writer has an Answers, or is an AnswerWriter where a response is one answer.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/parser.h"
#include "server/api/generation.h"

namespace heddle::server {

class Exchange;

// How the text of an answer is read: as content alone without a format.
struct ChatReply {
  std::shared_ptr<const chat::ChatFormat> format;
  std::shared_ptr<const chat::Tools> tools;  // null: what looks like a call is content
  bool in_thought = false;                   // the prompt ends inside of a thought
};

struct AnswerEvent {
  using Kind = chat::ChatEvent::Kind;
  Kind kind = Kind::content;
  uint32_t call = 0;                      // its number, from 0
  std::string text{};                     // of a call's begin: the name of the tool
  std::string id{};                       // of a call's begin
  std::vector<TokenLogprobs> logprobs{};  // of the tokens since the event before
};

// Of every completion of one request.
class Answers {
 public:
  Answers(const GenerationRequest& request, ChatReply reply);

  std::vector<AnswerEvent> push(uint32_t index, TextDelta delta);
  std::vector<AnswerEvent> finish(uint32_t index);
  std::vector<TokenLogprobs> rest(uint32_t index);  // log-probabilities after the last event
  uint32_t calls(uint32_t index) const;             // that have begun

 private:
  struct Answer {
    std::optional<chat::ChatParser> parser;  // none without a format
    std::vector<TokenLogprobs> logprobs;     // of text that is in no event yet
  };
  std::vector<AnswerEvent> with_ids(Answer& answer, std::vector<chat::ChatEvent> events) const;
  std::string call_id(const chat::ChatEvent& begin) const;

  ChatReply reply_;
  std::vector<Answer> answers_;
};

// Why an answer ended.
struct AnswerEnd {
  enum class Reason { end_token, stop_string, calls, max_tokens, context };  // calls: of tools; context: it is full
  Reason reason = Reason::end_token;
  std::string stop_string{};  // the one that was found
  bool is_cut() const { return reason == Reason::max_tokens || reason == Reason::context; }
};

// A writer for dialects with exactly one answer per response: one virtual function for each kind of event.
// on_answer_end is followed by GenerationWriter::on_end with the usage.
class AnswerWriter : public GenerationWriter {
 public:
  AnswerWriter(const GenerationRequest& request, ChatReply reply) : answers_(request, std::move(reply)) {}
  void on_text(uint32_t index, TextDelta delta) final;
  void on_finish(uint32_t index, const Finish& finish) final;

 protected:
  virtual void on_content(std::string_view text) = 0;
  virtual void on_reasoning(std::string_view text) = 0;
  virtual void on_call(const std::string& id, const std::string& name) = 0;
  virtual void on_arguments(std::string_view text) = 0;  // more of the last call's, a JSON object
  virtual void on_call_end() = 0;
  virtual void on_answer_end(const AnswerEnd& end) = 0;
  virtual void on_logprobs(std::vector<TokenLogprobs> /*logprobs*/) {}  // before the event of their text

 private:
  void give(std::vector<AnswerEvent> events);
  Answers answers_;
};

}  // namespace heddle::server

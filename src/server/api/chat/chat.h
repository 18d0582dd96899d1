// POST /v1/chat/completions and /apply-template: conversations in OpenAI's API.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/parser.h"
#include "server/api/chat/chat_tools.h"
#include "server/api/generation.h"
#include "server/api/openai/openai.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;

struct ChatRequest {
  std::string model;  // empty: absent
  Conversation conversation;
  ToolUse tools;
  Thinking thinking;
  GenerationRequest generation;  // without the prompt
  StreamOptions stream;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
ChatRequest read_chat(std::string_view body, const RequestRules& rules);
ChatRequest read_template(std::string_view body, const RequestRules& rules);  // only model and conversation

// How the text of an answer is read: as content alone without a format.
struct ChatReply {
  std::shared_ptr<const chat::ChatFormat> format;
  std::shared_ptr<const chat::Tools> tools;  // null: what looks like a call is content
  bool in_thought = false;                   // the prompt ends inside of a thought
};

// "chat.completion" and its chunks.
class ChatWriter : public OpenAiWriter {
 public:
  ChatWriter(Exchange& exchange, const OpenAiHead& head, StreamOptions options, const GenerationRequest& request,
             const ChatReply& reply = {});

  void on_text(uint32_t index, TextDelta delta) override;
  void on_finish(uint32_t index, const Finish& finish) override;

 private:
  struct ToolCall {
    std::string id, name, arguments;
  };
  struct Message {  // of one choice
    chat::ChatParser parser;
    std::string reasoning;
    std::vector<ToolCall> calls;
    std::vector<TokenLogprobs> logprobs;  // of text that is not written yet
  };

  void add(uint32_t index, const std::vector<chat::ChatEvent>& events);
  void write_event(uint32_t index, const chat::ChatEvent& event);
  std::string call_id(const chat::ChatEvent& begin) const;
  void append_choice(std::string& out, const Choice& choice) const override;
  void append_chunk(std::string& out, const Choice& part) override;
  void append_first_chunk(std::string& out, uint32_t index) const override;

  const ChatReply reply_;
  std::vector<Message> messages_;  // empty without a format
};

void chat_completions(const Call& call);
void apply_template(const Call& call);

}  // namespace heddle::server

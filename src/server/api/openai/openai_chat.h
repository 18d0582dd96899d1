// POST /v1/chat/completions and /apply-template: conversations in OpenAI's API.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/chat/chat.h"
#include "server/api/generation.h"
#include "server/api/openai/openai.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;

struct OpenAiChatRequest : ChatRequest {
  StreamOptions stream;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
OpenAiChatRequest read_chat(std::string_view body, const RequestRules& rules);
OpenAiChatRequest read_template(std::string_view body, const RequestRules& rules);  // only model and conversation
// The same, and further fields that `more` asks for.
OpenAiChatRequest read_template_and(std::string_view body, const RequestRules& rules,
                                    const std::function<void(Fields&)>& more);

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
    std::string reasoning;
    std::vector<ToolCall> calls;
  };

  void write_event(uint32_t index, AnswerEvent event);
  void append_choice(std::string& out, const Choice& choice) const override;
  void append_chunk(std::string& out, const Choice& part) override;
  void append_first_chunk(std::string& out, uint32_t index) const override;

  Answers answers_;
  std::vector<Message> messages_;
};

void chat_completions(const Call& call);
void apply_template(const Call& call);

}  // namespace heddle::server

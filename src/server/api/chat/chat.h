// POST /v1/chat/completions and /apply-template: conversations in OpenAI's API.
#pragma once
#include <string>
#include <string_view>

#include "server/api/generation.h"
#include "server/api/openai/openai.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;

struct ChatRequest {
  std::string model;  // empty: absent
  Conversation conversation;
  GenerationRequest generation;  // without the prompt
  StreamOptions stream;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
ChatRequest read_chat(std::string_view body, const RequestRules& rules);
ChatRequest read_template(std::string_view body, const RequestRules& rules);  // only model and conversation

// "chat.completion" and its chunks.
class ChatWriter : public OpenAiWriter {
 public:
  ChatWriter(Exchange& exchange, const OpenAiHead& head, StreamOptions options, const GenerationRequest& request)
      : OpenAiWriter(exchange, head, {"chat.completion", "chat.completion.chunk"}, options, request) {}

 private:
  void append_choice(std::string& out, const Choice& choice) const override;
  void append_chunk(std::string& out, const Choice& part) override;
  void append_first_chunk(std::string& out, uint32_t index) const override;
};

void chat_completions(const Call& call);
void apply_template(const Call& call);

}  // namespace heddle::server

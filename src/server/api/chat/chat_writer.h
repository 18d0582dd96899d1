// A chat's response in OpenAI's API: "chat.completion" and its chunks.
#pragma once
#include "server/api/openai/openai_writer.h"

namespace heddle::server {

class ChatWriter : public OpenAiWriter {
 public:
  ChatWriter(Exchange& exchange, const OpenAiHead& head, StreamOptions options, const GenerationRequest& request)
      : OpenAiWriter(exchange, head, {"chat.completion", "chat.completion.chunk"}, options, request) {}

 private:
  void append_choice(std::string& out, const Choice& choice) const override;
  void append_chunk(std::string& out, const Choice& part) override;
  void append_first_chunk(std::string& out, uint32_t index) const override;
};

}  // namespace heddle::server

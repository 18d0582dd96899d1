// A completion's response in OpenAI's API: "text_completion", for chunks too.
#pragma once
#include <cstddef>
#include <vector>

#include "server/api/openai/openai_writer.h"

namespace heddle::server {

class CompletionWriter : public OpenAiWriter {
 public:
  CompletionWriter(Exchange& exchange, const OpenAiHead& head, StreamOptions options, const GenerationRequest& request)
      : OpenAiWriter(exchange, head, {"text_completion", "text_completion"}, options, request),
        characters_(request.prompts.size() * request.n) {}

 private:
  void append_choice(std::string& out, const Choice& choice) const override;
  void append_chunk(std::string& out, const Choice& part) override;

  std::vector<size_t> characters_;  // of each choice, in chunks so far
};

}  // namespace heddle::server

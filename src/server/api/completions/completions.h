// POST /v1/completions: continuations of texts in OpenAI's API.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/openai/openai.h"
#include "server/api/tokenize.h"

namespace heddle::server {

struct Call;

struct CompletionRequest {
  std::string model;  // empty: absent
  std::vector<Prompt> prompts;
  GenerationRequest generation;  // without the prompts
  StreamOptions stream;
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
CompletionRequest read_completion(std::string_view body, const RequestRules& rules);

// "text_completion", for chunks too.
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

void completions(const Call& call);

}  // namespace heddle::server

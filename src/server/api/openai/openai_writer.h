// What responses to chats and completions have in common in OpenAI's API: one JSON document, or chunks of it as
// server-sent events.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/openai/openai_request.h"

namespace heddle::server {

class Exchange;
class ServedModel;

// What stands at the top of every document of one response.
struct OpenAiHead {
  std::string id;  // "chatcmpl-...", "cmpl-..."
  int64_t created = 0;
  std::string model;
};
OpenAiHead openai_head(std::string_view id_prefix, const ServedModel& model);

// A completion as it stands in a document, or what is new of it in a chunk.
struct Choice {
  uint32_t index = 0;
  std::string text;
  std::optional<std::vector<TokenLogprobs>> logprobs;
  std::string_view finish_reason;  // empty: not finished
};

// The two APIs differ in how they write a choice.
class OpenAiWriter : public GenerationWriter {
 public:
  struct Shape {
    std::string_view object, chunk_object;  // the names of a whole document and of a chunk
  };
  OpenAiWriter(Exchange& exchange, const OpenAiHead& head, const Shape& shape, StreamOptions options,
               const GenerationRequest& request);

  void on_text(uint32_t index, TextDelta delta) override;
  void on_finish(uint32_t index, const Finish& finish) override;
  void on_end(const Usage& usage, std::string_view trace) override;
  void on_error(const ApiError& error) override;

 protected:
  virtual void append_choice(std::string& out, const Choice& choice) const = 0;
  virtual void append_chunk(std::string& out, const Choice& part) = 0;
  // The chunk before the first text of a choice, in an API that has one.
  virtual void append_first_chunk(std::string& /*out*/, uint32_t /*index*/) const {}

 private:
  void start();
  void write_chunk(const Choice& part);

  Exchange& exchange_;
  const StreamOptions options_;
  const std::string head_;       // of a document or a chunk, up to and including "choices":[
  const std::string_view tail_;  // of a chunk
  const bool logprobs_;
  std::vector<Choice> choices_;  // of a whole document
};

// ,"logprobs":<written by the API>,"finish_reason":...} at the end of a choice.
void append_choice_end(std::string& out, const Choice& choice, auto&& append_logprobs) {
  out += R"(,"logprobs":)";
  if (choice.logprobs)
    append_logprobs(*choice.logprobs);
  else
    out += "null";
  out += R"(,"finish_reason":)";
  if (choice.finish_reason.empty())
    out += "null";
  else
    out.append("\"").append(choice.finish_reason).append("\"");
  out += "}";
}
void append_index(std::string& out, uint32_t index);  // {"index":...
void append_logprob(std::string& out, double log_probability);

}  // namespace heddle::server

// What chats and completions of OpenAI's API have in common: fields of their bodies, and responses as one JSON document
// or as chunks of it in server-sent events.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/json.h"

namespace heddle::server {

// How the response is sent.
struct StreamOptions {
  bool stream = false;         // as server-sent events
  bool include_usage = false;  // in the last of them
};
StreamOptions read_stream_options(Fields& fields);

// How tokens are chosen, by the field names of OpenAI's API, llama.cpp and vLLM: fills request.sampling, all but the
// log-probabilities, and request.dry_sequence_breakers.
void read_sampling(Fields& fields, const RequestRules& rules, GenerationRequest& request);

// The numbers among them, for clients that show them: {"temperature": {"min": 0, "max": 2, "default": 1, "whole":
// false},
// ...}; null: no limit.
std::string sampling_limits();

// The sampling fields, and all others but prompts, max_tokens, best_of, echo and log-probabilities.
void read_generation(Fields& fields, const RequestRules& rules, GenerationRequest& request);

// What the completion must be. `body`: that of the request, with the fields.
std::optional<ConstraintField> read_constraint(Fields& fields, std::string_view body);

// `top`: the number of most likely tokens to report in the place of each token; unset: no log-probabilities.
void set_logprobs(Fields& fields, const RequestRules& rules, std::optional<int64_t> top, engine::Sampling& sampling);

// A field that heddle does not do.
struct UnsupportedField {
  std::string_view name;
  const char* accepted;   // JSON, a list: values besides null that ask for nothing
  std::string_view what;  // it asks for; empty: other values have no effect on the answer, and are ignored
};
// Throws an ApiError for a field that asks for something heddle does not do. Values that ask for nothing are accepted.
void refuse_unsupported(Fields& fields, std::span<const UnsupportedField> unsupported);
// Those of OpenAI's API, and of other servers that speak it.
void refuse_unsupported_in_chats(Fields& fields);
void refuse_unsupported_in_completions(Fields& fields);

std::string read_user(Fields& fields);

// A string or a list of strings.
std::vector<std::string> read_stop_strings(Fields& fields, std::string_view name);

// How many tokens a completion may have, at least `least`. -1, as llama.cpp writes it, and nothing are no limit; a
// number beyond any context is taken too.
std::optional<uint32_t> read_token_limit(Fields& fields, std::string_view name, int64_t least);

constexpr int64_t max_max_tokens = engine::no_limit - 1;
constexpr int64_t max_top_logprobs = 20;

class Exchange;
class ServedModel;

// The first members of every document of one response.
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
  std::string members{};  // of a chunk, instead of the text: other members of the delta, as JSON
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

  void on_accepted() override;  // a stream begins
  void on_text(uint32_t index, TextDelta delta) override;
  void on_finish(uint32_t index, const Finish& finish) override;
  void on_end(const Usage& usage, std::string_view trace) override;
  void on_error(const ApiError& error) override;

 protected:
  virtual void append_choice(std::string& out, const Choice& choice) const = 0;
  virtual void append_chunk(std::string& out, const Choice& part) = 0;
  // The chunk before the first text of a choice, in an API that has one.
  virtual void append_first_chunk(std::string& /*out*/, uint32_t /*index*/) const {}

  bool is_stream() const { return options_.stream; }
  void add_part(Choice part, std::vector<TokenLogprobs> logprobs);  // as a chunk, or to the choice
  void end_choice(uint32_t index, std::string_view finish_reason, std::vector<TokenLogprobs> logprobs);

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
// A list of tokens, each with its bytes and the most likely tokens in its place.
void append_token_list(std::string& out, const std::vector<TokenLogprobs>& tokens);

}  // namespace heddle::server

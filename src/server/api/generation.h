// Text generation as every protocol sees it: the request that a body is read into, and the events that become a
// response. A protocol is a folder beside this file. It has a handler, which reads the body and calls generate(),
// and a GenerationWriter, which writes the events in the protocol's own form. Its paths are lines in
// service/routes.cpp.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "grammar/constraint.h"
#include "grammar/source.h"
#include "server/api/api_error.h"
#include "text/tokenizer.h"

namespace heddle::server {

struct Call;
class IgnoredFields;
struct Preparation;

struct ConstraintField {
  grammar::Source source;
  std::string field;  // of the body, "response_format.json_schema.schema"
};

ApiError constraint_refused(const ConstraintField& constraint, const Error& error);  // why it cannot be kept

// What the answer of a chat must be: its thought, its content and its calls.
struct AnswerConstraint {
  std::string key;                         // the same for the same grammar
  std::function<grammar::Grammar()> make;  // throws an ApiError, or an Error about `field`
  std::string field;                       // of the body
  std::shared_ptr<const grammar::ThoughtBudget> budget = nullptr;
};

struct GenerationRequest {
  std::vector<std::vector<text::TokenId>> prompts;  // at least one; each is completed n times
  std::string prompt_field;                         // the field of the body that the prompts came from, for errors
  // A chat's reply is a text of its own; any other completion continues the text of its prompt, which the tokenizer
  // must take into account when it decodes.
  bool continues_prompt = false;
  bool echo = false;                   // the completion's text begins with the prompt's
  std::optional<uint32_t> max_tokens;  // of each completion; unset: until the context is full
  uint32_t n = 1, best_of = 1;         // generate best_of completions for each prompt, return the n most likely
  engine::Sampling sampling;           // all but dry_breakers
  std::vector<std::string> dry_sequence_breakers;  // texts; empty where DRY is off
  std::vector<std::string> stop_strings;
  std::vector<text::TokenId> stop_tokens;                // besides the model's own end tokens
  bool ignore_eos = false;                               // the model's own end tokens do not end a completion
  std::optional<std::vector<text::TokenId>> end_tokens;  // instead of the model's own
  std::vector<text::TokenId> shown_tokens;               // control tokens that are part of the text, sorted
  std::optional<ConstraintField> constraint;
  std::optional<AnswerConstraint> answer;  // instead of the constraint, which is a part of it
  int priority = 0;
  engine::Speculation speculation = engine::Speculation::automatic;
  bool reuse = true;       // of the prefix cache
  bool token_ids = false;  // the writer gets them with the text
  // kv_transfer_params: another process goes on with the prompt, or has computed it.
  bool remote_decode = false;
  std::optional<engine::KvAddress> remote_prefill;
  std::string user;  // for the log
};

// What bodies are checked against.
struct RequestRules {
  const text::Tokenizer& tokenizer;
  uint32_t vocabulary = 0;           // tokens the model has logits for
  IgnoredFields* ignored = nullptr;  // gets the names of fields without effect; null: they are refused
  bool unloads_models = false;       // models are unloaded, so that how long one is kept has an effect
};

struct CompletionCost {  // of one completion
  uint32_t tokens = 0, cached = 0;
  engine::Timing timing = {};
};
struct Usage {
  uint64_t prompt = 0, completion = 0, cached = 0;  // tokens; cached: those of the prompt found in the prefix cache
  std::vector<CompletionCost> completions{};        // by number; empty where the best of several are returned
  std::string kv_transfer = {};                     // a JSON object: how another process finds the prompt's KV
};

struct TokenLogprob {
  std::string bytes;  // the token's, possibly part of a character
  double log_probability = 0;
  text::TokenId id = 0;
};
struct TokenLogprobs {  // of one token of a text
  TokenLogprob token;
  bool has_logprob = true;        // false: the first token of a prompt
  std::vector<TokenLogprob> top;  // the most likely tokens in its place, most likely first
  bool in_text = true;            // false: a control token, which is not part of the text
};

// The next piece of a completion's text, with the log-probabilities of the tokens that begin in it if they were asked
// for.
struct TextDelta {
  std::string text;
  std::vector<TokenLogprobs> logprobs;
  std::vector<text::TokenId> tokens{};  // that begin in it, if they were asked for
  bool empty() const { return text.empty() && logprobs.empty(); }
};

struct Finish {
  enum class Reason { end_token, stop_string, max_tokens, context };  // context: it is full
  Reason reason = Reason::end_token;
  std::string stop_string;  // the one that was found
};
inline std::string_view openai_name(const Finish& finish) {  // also used in the log
  const bool stopped = finish.reason == Finish::Reason::end_token || finish.reason == Finish::Reason::stop_string;
  return stopped ? "stop" : "length";
}

// Writes one generation as the response of one request. Completions are numbered from 0, n of them for each prompt.
// Each has any number of texts and then one finish; those of different completions may interleave. Last comes one end;
// an error may come at any point instead, and ends it too. Called by one thread at a time.
class GenerationWriter {
 public:
  virtual ~GenerationWriter() = default;
  virtual void on_accepted() {}  // first, once the engine has taken the request: a stream may begin
  virtual void on_text(uint32_t index, TextDelta delta) = 0;  // not empty
  virtual void on_finish(uint32_t index, const Finish& finish) = 0;
  virtual void on_end(const Usage& usage, std::string_view trace) = 0;  // trace: a JSON object, or empty
  virtual void on_error(const ApiError& error) = 0;
};

// Generates, and gives the writer the events (service/generation_job.cpp). Returns at once. Throws an ApiError if the
// engine does not take the request; anything later goes to the writer. `preparation`: how long it took to get here.
void generate(const Call& call, GenerationRequest request, std::unique_ptr<GenerationWriter> writer,
              const Preparation& preparation);

}  // namespace heddle::server

// One model behind the API: from an HTTP request to the engine and back.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "chat/format.h"
#include "engine/engine_thread.h"
#include "server/api/api_error.h"
#include "server/api/generation.h"
#include "server/http/http.h"
#include "server/service/constraints.h"
#include "text/template.h"
#include "text/tokenizer.h"

namespace heddle::server {

// What lists of models say of one; unknown members are empty or 0.
struct ModelFacts {
  std::string architecture, format;     // "llama"; "gguf" or "safetensors"
  std::string quantization, license;    // "Q4_K_M"; "apache-2.0"
  uint64_t parameters = 0, layers = 0;  // weights of all matrices; layers
  uint64_t file_bytes = 0;              // of the model's files
  uint64_t memory = 0, gpu_memory = 0;  // bytes of weights, KV cache and workspace; those of them on a GPU
  int64_t modified = 0;                 // the file, in seconds since 1970
};

// The model to serve. Tokenizer and engine must outlive the service.
struct Served {
  std::string name;  // its id for clients
  const text::Tokenizer& tokenizer;
  std::string chat_template;           // empty: chats are refused
  uint32_t context = 0;                // tokens of one sequence, prompt and completion
  uint32_t vocabulary = 0, width = 0;  // tokens the model has logits for; values of an embedding
  engine::EngineThread& engine;
  std::string config;     // a JSON object for /v1/effective-config
  ModelFacts facts = {};  // for lists of models
  // An encoder does not generate; it gives embeddings, one for each text or for each token, or ranks documents.
  bool generates = true, embeds = true, embeds_tokens = false, ranks = false;
  std::string rerank_template = {};  // with {query} and {document}; empty: the tokenizer joins the two
  uint32_t token_types = 1;          // that the model tells apart
  uint32_t state_width = 0;          // values of a token's state
};

struct ServiceOptions {
  std::vector<std::string> keys;         // API keys; empty: no authentication
  std::string cors_origin;               // "*" or an origin; empty: no CORS
  bool metrics_open = false;             // /metrics needs no key
  bool strict = false;                   // refuse fields that have no effect
  bool any_model = false;                // take any name of a model
  bool parse_special = false;            // texts of messages may write control tokens
  size_t store_bytes = 64u << 20;        // for responses that clients may ask for again; 0: none is kept
  bool log_prompts = false;              // log prompts and completions
  double heartbeat_seconds = 5;          // without a word to a stream before it gets a comment; 0: it gets none
  size_t max_body = 16u << 20;           // bytes of a body that comes compressed, when it is expanded
  std::function<void(std::string)> log;  // takes a line of JSON for each request, from any thread; may be empty
  std::function<uint64_t()> lost_lines;  // of the log, so far; may be empty
};

class ServiceState;

class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();  // cancels the requests in progress and waits for them

  // Until then, requests that need the model are refused with 503, and /health/ready gives 503.
  void serve(Served served);
  // From now on generation is refused with 503, and /health/ready gives 503.
  void drain();
  void set_keys(const std::vector<std::string>& keys);  // instead of those of the options; throws as for these
  size_t in_progress() const;                           // requests without a complete response
  size_t to_drain() const;                              // of these, those that came before drain()
  void cancel_all();
  void connection_refused();  // counts it: there was no descriptor for it

  void handle(HttpRequest request, std::shared_ptr<Responder> responder);  // from any thread; does not block
  // Throws an ApiError if the sender of this header may not send a body. From any thread.
  void admit(const HttpRequest& head) const;
  // Responds to a request that was refused while it was read; all of it but the peer may be missing.
  void refuse(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why);

 private:
  std::unique_ptr<ServiceState> state_;
};

// A conversation as chat templates take it.
struct Conversation {
  std::string messages;   // JSON, a list of objects with role and content
  std::string variables;  // JSON, an object with further variables for the template; may be empty
  std::string tools;      // JSON, a list of those that may be called; may be empty
  std::string effort;     // of thinking; empty: as the template does
  bool add_generation_prompt = true;
  bool continues_last = false;     // the prompt ends within the last message, which the answer goes on with
  std::string field = "messages";  // the field of the body that it came from, for errors
};

struct RenderedChat {
  std::string prompt;
  text::TextRanges given;                          // what came with the conversation, not from the template
  std::shared_ptr<const chat::ChatFormat> format;  // of the answer
};

// Tokens with a meaning of their own in a chat.
struct ChatTokens {
  std::vector<text::TokenId> shown;  // control tokens that belong to marks of the format, sorted
  std::vector<text::TokenId> ends;   // that end an answer
};

// The model that is served, with its chat template.
class ServedModel {
 public:
  explicit ServedModel(Served served);

  const Served& served() const { return served_; }
  const text::Tokenizer& tokenizer() const { return served_.tokenizer; }
  engine::EngineThread& engine() const { return served_.engine; }
  Constraints& constraints() const { return *constraints_; }
  uint32_t context() const { return served_.context; }
  RequestRules rules() const { return {served_.tokenizer, served_.vocabulary}; }
  int64_t created() const { return created_; }               // when it was loaded, in seconds since 1970
  double seconds() const { return seconds_since(loaded_); }  // since then

  // Throws an ApiError 400 if there is no template, or if the template refuses.
  RenderedChat render(const Conversation& conversation) const;
  ChatTokens chat_tokens(const chat::ChatFormat& format, bool calls) const;
  const chat::ChatFormat* chat_format() const { return chat_format_.get(); }  // null without a usable template

 private:
  Served served_;
  std::optional<text::ChatTemplate> template_;
  std::string no_template_;  // the reason
  std::shared_ptr<const chat::ChatFormat> chat_format_;
  const std::unique_ptr<Constraints> constraints_;
  int64_t created_;
  Clock::time_point loaded_ = Clock::now();
};

int64_t unix_time();  // seconds since 1970

// Whether a page of this origin can reach the server by DNS rebinding. The owner of a public name can make it resolve
// to the server's address after the page was loaded; then page and server have the same origin, and CORS does not
// apply. Not possible for addresses, localhost, names without a dot, and schemes other than http and https.
bool can_be_rebound(std::string_view origin);

// "https://example.org" or "app://name:8080": as browsers write it, without a path.
bool is_origin(std::string_view text);

}  // namespace heddle::server

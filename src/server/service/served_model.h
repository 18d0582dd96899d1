// A model as the API sees it: what lists say of it, and what requests need of one that is loaded.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "chat/format.h"
#include "engine/engine_thread.h"
#include "server/api/generation.h"
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

// What is known of a model whether or not it is loaded.
struct ModelCard {
  std::string name;                    // its id for clients
  std::string chat_template;           // empty: chats are refused
  uint32_t context = 0;                // tokens of one sequence, prompt and completion
  uint32_t vocabulary = 0, width = 0;  // tokens the model has logits for; values of an embedding
  ModelFacts facts = {};               // for lists of models
  // An encoder does not generate; it gives embeddings, one for each text or for each token, or ranks documents.
  bool generates = true, embeds = true, embeds_tokens = false, ranks = false;
};

// The model to serve. Tokenizer and engine must outlive the service, or be those of a LoadedModel.
struct Served {
  ModelCard card;
  const text::Tokenizer& tokenizer;
  engine::EngineThread& engine;
  std::string config;                      // a JSON object for /v1/effective-config
  std::string rerank_template = {};        // with {query} and {document}; empty: the tokenizer joins the two
  uint32_t token_types = 1;                // that the model tells apart
  uint32_t state_width = 0;                // values of a token's state
  engine::KvTransfer* transfer = nullptr;  // to other processes and from them; null: there is none
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
  const ModelCard& card() const { return served_.card; }
  const text::Tokenizer& tokenizer() const { return served_.tokenizer; }
  engine::EngineThread& engine() const { return served_.engine; }
  Constraints& constraints() const { return *constraints_; }
  uint32_t context() const { return served_.card.context; }
  RequestRules rules() const { return {served_.tokenizer, served_.card.vocabulary}; }
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

}  // namespace heddle::server

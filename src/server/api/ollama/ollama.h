// Ollama's API: POST /api/chat and /api/generate, whole or as lines of JSON; embeddings; and what clients ask about the
// model before they use it.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/chat/chat.h"
#include "server/api/generation.h"
#include "server/service/service.h"

namespace heddle::server {

struct Call;

enum class OllamaForm { chat, generate };  // of a response: a message, or a text

struct OllamaRequest : ChatRequest {
  OllamaForm form = OllamaForm::chat;
  bool stream = true;
  std::string loads;               // "load" or "unload" for a request without messages or prompt; empty: it generates
  std::optional<bool> think;       // whether to think; unset: as the template does
  std::optional<std::string> raw;  // the prompt, if it is not to go through the template
  std::optional<double> keep_alive = {};  // seconds that the model stays in memory; unset: as the server does
};

// From the body of a request. Throws an ApiError of status 400 that names the field.
OllamaRequest read_ollama_chat(std::string_view body, const RequestRules& rules);
OllamaRequest read_ollama_generate(std::string_view body, const RequestRules& rules);

struct OllamaEmbedRequest {
  std::string model;
  std::vector<std::string> inputs;
  bool truncate = true;  // inputs that are longer than the context
  std::optional<uint32_t> dimensions;
  std::optional<double> keep_alive = {};
};
OllamaEmbedRequest read_ollama_embed(std::string_view body, const RequestRules& rules);       // /api/embed
OllamaEmbedRequest read_ollama_embeddings(std::string_view body, const RequestRules& rules);  // /api/embeddings

struct OllamaModelRequest {
  std::string model;
  bool stream = true;
};
OllamaModelRequest read_ollama_model(std::string_view body, IgnoredFields* ignored);  // /api/show, /api/pull

std::string ollama_error(const ApiError& error);  // {"error":"..."}

std::string ollama_name(std::string_view served);  // with a tag
// Throws an ApiError 404 unless the name means the model, or is empty, or the server takes any name.
void expect_ollama_model(const Call& call, const std::string& name);

// The response to a request that only loads the model. `reason`: "load" or "unload".
std::string ollama_loaded(OllamaForm form, std::string_view model, std::string_view reason);

class OllamaWriter : public AnswerWriter {
 public:
  // `model`: its name as the request has it.
  OllamaWriter(Exchange& exchange, std::string model, OllamaForm form, bool stream, const GenerationRequest& request,
               ChatReply reply);
  void on_accepted() override;
  void on_end(const Usage& usage, std::string_view trace) override;
  void on_error(const ApiError& error) override;

 private:
  struct Chunk {
    std::string content{}, thinking{};
    std::string calls{};  // JSON objects with commas between them
    std::vector<TokenLogprobs> logprobs{};
  };
  void on_content(std::string_view text) override;
  void on_reasoning(std::string_view text) override;
  void on_call(const std::string& id, const std::string& name) override;
  void on_arguments(std::string_view text) override;
  void on_call_end() override;
  void on_answer_end(const AnswerEnd& end) override;
  void on_logprobs(std::vector<TokenLogprobs> logprobs) override;

  void flush();  // of a stream, a line with what is new
  std::string take_chunk();

  Exchange& exchange_;
  const std::string model_;
  const OllamaForm form_;
  const bool stream_;
  Chunk chunk_;  // what is not written yet: of a whole response, all of it
  struct {
    std::string id, name, arguments;
  } call_;  // that is being generated
  uint64_t calls_ = 0;
  std::string_view done_reason_;
};

void ollama_chat(const Call& call);
void ollama_generate(const Call& call);
void ollama_embed(const Call& call);
void ollama_embeddings(const Call& call);
void ollama_tags(const Call& call);          // GET /api/tags: the models
void ollama_show(const Call& call);          // POST /api/show: what is known of one
void ollama_ps(const Call& call);            // GET /api/ps: the models in memory
void ollama_version(const Call& call);       // GET /api/version: of the API
void ollama_pull(const Call& call);          // POST /api/pull: succeeds for models that are served
void ollama_has_no_store(const Call& call);  // create, copy, push, delete, blobs: 501

}  // namespace heddle::server

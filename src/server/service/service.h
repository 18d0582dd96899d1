// One model behind the API: from an HTTP request to the engine and back.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_thread.h"
#include "server/api/api_error.h"
#include "server/http/http.h"
#include "text/tokenizer.h"

namespace heddle::server {

// The model to serve. Tokenizer and engine must outlive the service.
struct Served {
  std::string name;  // its id for clients
  const text::Tokenizer& tokenizer;
  std::string chat_template;           // empty: chats are refused
  uint32_t context = 0;                // tokens of one sequence, prompt and completion
  uint32_t vocabulary = 0, width = 0;  // tokens the model has logits for; values of an embedding
  engine::EngineThread& engine;
  std::string config;  // a JSON object for /v1/effective-config
};

struct ServiceOptions {
  std::vector<std::string> keys;         // API keys; empty: no authentication
  std::string cors_origin;               // "*" or an origin; empty: no CORS
  bool log_prompts = false;              // log prompts and completions
  std::function<void(std::string)> log;  // takes a line of JSON for each request, from any thread; may be empty
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
  size_t in_progress() const;  // requests without a complete response
  void cancel_all();

  void handle(HttpRequest request, std::shared_ptr<Responder> responder);  // from any thread; does not block
  // Throws an ApiError if the sender of this header may not send a body. From any thread.
  void admit(const HttpRequest& head) const;
  // Responds to a request that was refused while it was read; all of it but the peer may be missing.
  void refuse(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why);

 private:
  std::unique_ptr<ServiceState> state_;
};

}  // namespace heddle::server

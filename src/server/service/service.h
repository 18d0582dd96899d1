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

// What is served. All that is referred to outlives the service.
struct Served {
  std::string name;  // what clients call it
  const text::Tokenizer& tokenizer;
  std::string chat_template;  // empty: none, and chats are refused
  uint32_t context = 0;       // tokens of one sequence, prompt and answer
  uint32_t vocabulary = 0, width = 0;
  engine::EngineThread& engine;
  std::string config;  // JSON, an object: what is in force, for /v1/effective-config
};

struct ServiceOptions {
  std::vector<std::string> keys;         // API keys; none: everybody may
  std::string cors_origin;               // "*" or an origin; empty: no CORS
  bool log_prompts = false;              // prompts and answers in the log
  std::function<void(std::string)> log;  // a line of JSON for each request; may be empty; from any thread
};

class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();  // cancels what is under way and waits for it

  // Until then, what needs the model is refused with 503 and /health/ready says no.
  void serve(Served served);
  // From now on /health/ready says no and new work is refused with 503.
  void drain();
  size_t under_way() const;  // requests that are not answered yet
  void cancel_all();

  void handle(HttpRequest request, std::shared_ptr<Answer> answer);  // from any thread; does not wait
  // Throws an ApiError if whoever sent this header may not send a body to it. From any thread.
  void admit(const HttpRequest& head) const;
  // Answers a request that was refused before it came here, and of which there may be no more than the peer.
  void refuse(HttpRequest head, std::shared_ptr<Answer> answer, const ApiError& why);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::server

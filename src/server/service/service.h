// Models behind the API: from an HTTP request to the engine and back.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/api_error.h"
#include "server/http/http.h"
#include "server/service/models.h"
#include "server/service/served_model.h"

namespace heddle::server {

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
  ModelsOptions models;
};

class ServiceState;

class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();  // cancels the requests in progress and waits for them

  // Until then, requests that need a model are refused with 503, and /health/ready gives 503. One that is in memory and
  // stays there, or several that are loaded when requests need them.
  void serve(Served served, std::vector<std::string> names = {});
  void serve(std::vector<Loadable> models);
  void load(std::string_view model);  // one of the latter, before a request needs it
  std::string fault() const;          // why a model's engine has stopped; empty: none has
  void retire();                      // from now on /health/ready gives 503; requests are still accepted
  // From now on generation is refused with 503, too.
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

// Whether a page of this origin can reach the server by DNS rebinding. The owner of a public name can make it resolve
// to the server's address after the page was loaded; then page and server have the same origin, and CORS does not
// apply. Not possible for addresses, localhost, names without a dot, and schemes other than http and https.
bool can_be_rebound(std::string_view origin);

// "https://example.org" or "app://name:8080": as browsers write it, without a path.
bool is_origin(std::string_view text);

}  // namespace heddle::server

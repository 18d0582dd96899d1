// The HTTP server: accepts connections, reads requests, calls the handler, sends responses. A connection costs memory,
// not a thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/api/api_error.h"
#include "server/http/http.h"

namespace heddle::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;                  // 0: any free one
  std::string tls_certificate, tls_key;  // PEM files; both empty: no TLS
  uint32_t threads = 2;
  size_t max_body = 16u << 20, max_header = 32u << 10;  // bytes of a request
  uint32_t max_connections = 10'000;
  double header_seconds = 10;      // from the first byte of a request, or the connection, to the end of its header
  double body_seconds = 60;        // from there to the end of its body
  double idle_seconds = 120;       // between two requests
  double write_seconds = 30;       // without progress in sending before the client counts as disconnected
  size_t max_bodies = 512u << 20;  // bytes of all bodies that are being read
  size_t max_unsent = 8u << 20;    // bytes of a response that wait for a slow reader before the connection is closed
  // Called from any thread after a header was read and before its body is; throws an ApiError to refuse the request.
  std::function<void(const HttpRequest& head)> admit;
  // Responds, from any thread, to a request that is refused before the handler gets it. The header may be incomplete.
  // Empty: a plain error response.
  std::function<void(HttpRequest head, std::shared_ptr<Responder> responder, const ApiError& why)> refuse;
};

class HttpServer {
 public:
  // Listens at once. Throws an Error that names the address, or the TLS file, and the reason.
  HttpServer(HttpOptions options, RequestHandler handler);
  ~HttpServer();  // closes all connections

  uint16_t port() const;
  std::string address() const;  // "http://127.0.0.1:8080"
  size_t connections() const;
  // Takes no new connections; open ones are closed after the response in progress.
  void stop_accepting();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::server

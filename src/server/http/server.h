// Sockets: who connects, reads requests, calls the handler, writes answers. A connection costs memory, not a thread.
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
  uint16_t port = 8080;                  // 0: any that is free
  std::string tls_certificate, tls_key;  // PEM files; both or none
  uint32_t threads = 2;
  size_t most_body = 16u << 20, most_header = 32u << 10;  // bytes
  uint32_t most_connections = 10'000;
  double header_seconds = 10;       // from the first byte of a request (or the connection) to the end of its header
  double body_seconds = 60;         // for the body
  double idle_seconds = 120;        // between two requests
  double write_seconds = 30;        // without a byte taken: the client has gone
  size_t most_bodies = 512u << 20;  // bytes of all bodies that are being read
  // Called, from any thread, when a header has come and before its body is read; throws an ApiError to refuse it.
  std::function<void(const HttpRequest& head)> admit;
  // Answers, from any thread, a request that is refused here and that no handler sees. Of its head there is what was
  // read of it. Empty: a plain answer.
  std::function<void(HttpRequest head, std::shared_ptr<Answer> answer, const ApiError& why)> refuse;
  size_t most_unsent = 8u << 20;  // bytes of one answer that wait for a slow reader, beyond it is cut off
};

class HttpServer {
 public:
  // Listens at once. Throws an Error that names address and reason, or the TLS file and what is wrong with it.
  HttpServer(HttpOptions options, Handler handler);
  ~HttpServer();  // cuts what is open

  uint16_t port() const;
  std::string address() const;  // "http://127.0.0.1:8080"
  size_t connections() const;
  // No new connections; open ones end after the answer under way.
  void stop_accepting();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::server

// HTTP as handlers and the program see it: a request that has arrived completely, a responder that takes the response,
// whole or in parts, and the server between them and the sockets. A connection costs memory, not a thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::server {

struct ApiError;

struct Header {
  std::string name, value;
};

struct HttpRequest {
  std::string method;           // "POST"
  std::string path, query;      // before and after the question mark of "/v1/models?a=b"
  std::vector<Header> headers;  // names in lower case
  std::string body;
  std::string peer;  // "127.0.0.1:51234"

  // The value of the first header of this name (in lower case); null: absent.
  const std::string* header(std::string_view name) const {
    for (const Header& one : headers)
      if (one.name == name) return &one.value;
    return nullptr;
  }
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "application/json";
  std::vector<Header> headers;
  std::string body;
};

// Responds to one request: either send(), or start(), any number of write() and finish(). May be called from any
// thread, never blocks, and does nothing once the client has disconnected. If it is destroyed before the response is
// complete, the connection is closed.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void start(HttpResponse head) = 0;  // its body is the first chunk
  virtual void write(std::string chunk) = 0;  // sent at once
  virtual void finish() = 0;
  // `callback` is called once, from any thread, if the client disconnects before the response is complete; at once if
  // it has already.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};
// Called by the server's threads, for several connections at the same time.
using RequestHandler = std::function<void(HttpRequest, std::shared_ptr<Responder>)>;

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
  // Called from any thread for a connection that got nothing but a 503, or with TLS nothing at all, because the process
  // has no descriptor left for it. May be empty.
  std::function<void()> on_no_descriptor;
};

class HttpServer {
 public:
  // Listens at once. Throws an Error that names the address, or the TLS file, and the reason.
  HttpServer(HttpOptions options, RequestHandler handler);
  ~HttpServer();  // closes all connections

  uint16_t port() const;
  std::string address() const;  // "http://127.0.0.1:8080"
  size_t connections() const;
  // Every response is the last of its connection. Connections that have none in progress stay open: a request may be
  // under way.
  void retire();
  // Open connections are closed after the response in progress, new ones after their first.
  void drain();
  // Takes no new connections; open ones are closed after the response in progress.
  void stop_accepting();
  // New connections get the certificate that is in its file now. Throws as the constructor; then nothing changes.
  void reload_tls();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::server

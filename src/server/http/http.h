// HTTP as handlers see it: a request that has arrived completely, and a responder that takes the response, whole or in
// parts.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::server {

struct Header {
  std::string name, value;
};

struct HttpRequest {
  std::string method;           // "POST"
  std::string path, query;      // of "/v1/models?a=b" what stands before and after the question mark
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
  virtual void start(HttpResponse head) = 0;  // its body is the first part
  virtual void write(std::string part) = 0;   // sent at once
  virtual void finish() = 0;
  // `callback` is called once, from any thread, if the client disconnects before the response is complete; at once if
  // it has already.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};
// Called by the server's threads, for several connections at the same time.
using RequestHandler = std::function<void(HttpRequest, std::shared_ptr<Responder>)>;

}  // namespace heddle::server

// HTTP as handlers see it: a request that has arrived whole, and its answer, given once, whole or piece by piece.
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
  std::string path, query;      // of "/v1/models?a=b" the part before and the part after the question mark
  std::vector<Header> headers;  // names in lower case
  std::string body;
  std::string peer;  // "127.0.0.1:51234"

  const std::string* header(std::string_view name) const;  // the first of that name, in lower case; null: none
};

struct HttpResponse {
  unsigned status = 200;
  std::string type = "application/json";
  std::vector<Header> headers;
  std::string body;
};

// Of one request. May be called from any thread, never waits, and after the client has gone does nothing. Either
// send(), or start(), any number of write() and finish(). One that is dropped before its end is cut off.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void send(HttpResponse response) = 0;
  virtual void start(HttpResponse head) = 0;  // its body is the first piece
  virtual void write(std::string piece) = 0;  // goes out at once
  virtual void finish() = 0;
  // `gone` is called once, from any thread, if the client goes away before the end was handed over; at once if it has.
  virtual void when_gone(std::function<void()> gone) = 0;
};
using Handler = std::function<void(HttpRequest, std::shared_ptr<Answer>)>;

}  // namespace heddle::server

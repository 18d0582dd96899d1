// One HTTP request after the other out of bytes as they come. What is not framed well is refused with the status that
// says so: what two programs in a row understand differently is how requests are smuggled.
#pragma once
#include <memory>
#include <string>

#include "server/http/http.h"

namespace heddle::server {

class RequestReader {
 public:
  RequestReader(size_t most_header, size_t most_body);
  ~RequestReader();

  enum class Stage { header, body, whole };  // what is still to come; whole: nothing
  // Takes what it can from the front of `bytes`. Throws an ApiError; after that nobody knows where the next request
  // begins, and nothing more can be read.
  Stage read(std::string& bytes);
  bool begun() const;  // a byte of the request came

  // As soon as the header is there:
  struct Manners {
    bool old = false;        // HTTP/1.0
    bool keep_alive = true;  // the client would like to send another request
    bool head_only = false;  // it was HEAD: the answer has no body
    bool waits = false;      // for "100 Continue", before it sends the body
  };
  const Manners& manners() const;
  const HttpRequest& head() const;  // without a body and a peer
  size_t body_bytes() const;        // so many are here
  // When it is whole; then the next one can be read. Fields behind a chunked body are not
  // among the headers: they came after everything was decided.
  HttpRequest take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::server

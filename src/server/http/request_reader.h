// HTTP requests from a stream of bytes, one after the other. Ambiguous framing is refused: requests are smuggled where
// a proxy and the server understand it differently.
#pragma once
#include <memory>
#include <string>

#include "server/http/http.h"

namespace heddle::server {

class RequestReader {
 public:
  RequestReader(size_t max_header, size_t max_body);  // bytes
  ~RequestReader();

  enum class Stage { header, body, complete };  // what is being read; complete: take() can be called
  // Takes what it can from the front of `bytes`. Throws an ApiError; after that it is unknown where the next request
  // begins, and nothing more can be read.
  Stage read(std::string& bytes);
  bool begun() const;  // a byte of the request has arrived

  // As soon as the header is complete:
  struct Framing {
    bool http10 = false;            // HTTP/1.0
    bool keep_alive = true;         // the client wants to send another request
    bool head_only = false;         // the request is HEAD: the response has no body
    bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
  };
  const Framing& framing() const;
  const HttpRequest& head() const;  // without body and peer
  size_t body_bytes() const;        // that have arrived
  // Then the next request can be read. Trailer fields of a chunked body are not among the headers: they arrive
  // after the request was admitted by its header.
  HttpRequest take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::server

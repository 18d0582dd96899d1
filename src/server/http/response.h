// A response on its way from a handler, on any thread, to the connection that sends it.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "server/http/http.h"
#include "server/http/request_reader.h"

namespace heddle::server {

// The connection, as far as responses know it.
class Wakeable {
 public:
  virtual void wake() = 0;  // there is something to take; from any thread, does not block

 protected:
  ~Wakeable() = default;
};

// Parts are framed where they are written and appended to each other: what comes while the connection is busy goes out
// in one write.
class Outbox {
 public:
  // `max_unsent`: bytes that may wait for a slow reader; beyond that the connection is closed.
  Outbox(Wakeable& connection, const RequestReader::Framing& framing, size_t max_unsent)
      : connection_(&connection), framing_(framing), max_unsent_(max_unsent) {}

  // The handler's side, as Responder has it.
  void send(HttpResponse response);
  void start(HttpResponse head);
  void write(std::string part);
  void finish();
  void on_disconnect(std::function<void()> callback);
  void drop();  // the responder was destroyed
  // The handler has failed: sends `instead` if nothing was sent, and closes the connection otherwise. Whatever the
  // handler does later has no effect.
  void fail(HttpResponse instead);

  // The connection's side.
  struct Taken {
    bool complete = false;  // nothing follows
    bool keep_alive = true;
  };
  bool aborted();                  // the connection must be closed
  Taken take(std::string& bytes);  // replaces `bytes` by what waits
  void sent(size_t bytes);         // of what was taken
  void close_after();              // says "Connection: close", if the header is not written yet
  // Sends bytes that a client ignores: "100 Continue" before the response, a zero before the size of a chunk in it. A
  // client that has closed its socket answers with a reset, one that has only ended its input does not. Nothing for
  // HTTP/1.0, which has neither.
  void probe();
  void disconnect();  // the client has disconnected; the connection is not woken any more

 private:
  enum class Phase { fresh, streaming, complete };
  bool closed() const { return !connection_ || aborted_ || failed_; }
  void write_head(const HttpResponse& response, bool whole);
  void write_whole(const HttpResponse& response);
  void write_chunk(std::string_view part);
  void wake();
  void abort();

  std::mutex mutex_;
  Wakeable* connection_;  // null: the client has disconnected
  RequestReader::Framing framing_;
  const size_t max_unsent_;
  Phase phase_ = Phase::fresh;
  bool aborted_ = false, failed_ = false, woken_ = false;
  std::string pending_;
  size_t unsent_ = 0;  // bytes that were taken and are not sent
  std::function<void()> on_disconnect_;
};

std::shared_ptr<Responder> make_responder(std::shared_ptr<Outbox> outbox);

}  // namespace heddle::server

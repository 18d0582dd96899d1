// The connection of one client: its requests one after the other, each answered before the next is read. Responses
// reach it from handlers on any thread through an Outbox.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "server/api/api_error.h"
#include "server/http/http.h"
#include "server/http/request_reader.h"

namespace heddle::server {

// The connection, as far as responses know it.
class Wakeable {
 public:
  virtual void wake() = 0;  // there is something to send; from any thread, does not block

 protected:
  ~Wakeable() = default;
};

// A response on its way from a handler, on any thread, to the connection that sends it. Chunks are framed where they
// are written and appended to each other: what arrives while the connection is busy goes out in one write.
class Outbox {
 public:
  // `max_unsent`: bytes that may wait for a slow reader; beyond that the connection is closed.
  Outbox(Wakeable& connection, const RequestReader::Framing& framing, size_t max_unsent)
      : connection_(&connection), framing_(framing), max_unsent_(max_unsent) {}

  // The handler's side, as Responder has it.
  void send(HttpResponse response);
  void start(HttpResponse head);
  void write(std::string chunk);
  void finish();
  void on_disconnect(std::function<void()> callback);
  void drop();  // the responder was destroyed
  // The handler has failed: sends `instead` if nothing was sent, and closes the connection otherwise. Later calls
  // of the handler have no effect.
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
  void write_chunk(std::string_view text);
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

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

// What the connections of a server share; it outlives them.
struct HttpShared {
  HttpOptions options;
  RequestHandler handler;
  std::shared_ptr<boost::asio::ssl::context> tls = nullptr;  // null: no TLS. Used by the listener's strand only
  std::atomic<bool> draining = false;                        // every response is the last of its connection
  mutable std::atomic<size_t> body_bytes = 0;                // of bodies that are being read
};

// Everything but wake() happens on its strand.
class Connection final : public Wakeable, public std::enable_shared_from_this<Connection> {
 public:
  // `over_limit`: respond with 503 and close. `slot` is released when the socket is closed.
  Connection(const HttpShared& shared, Socket socket, bool over_limit, std::shared_ptr<void> slot);

  void start();
  void close_soon();  // after the response in progress; now if there is none
  void close();       // now
  void wake() override;
  Strand strand() { return socket().get_executor(); }

 private:
  using Error = boost::system::error_code;
  // handshake -> reading -> responding -> reading ... -> closing -> closed
  enum class Phase { handshake, reading, responding, closing, closed };

  Socket& socket();
  template <class Operation>
  void on_stream(Operation operation) {
    std::visit(operation, stream_);
  }

  void begin();
  void read();
  void on_read(Error error, size_t bytes);
  void parse();
  void begin_body();
  void count_body(size_t bytes);  // that have arrived
  void handle();
  Outbox& outbox();
  void refuse(const ApiError& error);
  void on_end_of_input();
  void read_ahead();
  void wait_for_hangup();
  void flush();
  void write();
  void on_write(Error error, size_t bytes);
  void end_response(bool keep_alive);
  void shut_down();
  void discard_input();

  void set_deadline(double seconds);  // on_deadline() is called then, unless it is moved or cleared
  void clear_deadline() { deadline_ = never; }
  void start_timer();
  void on_deadline();

  static constexpr Clock::time_point never = Clock::time_point::max();

  const HttpShared& shared_;
  std::variant<Socket, boost::asio::ssl::stream<Socket>> stream_;
  std::string peer_;
  const bool over_limit_;
  std::shared_ptr<void> slot_;

  Phase phase_ = Phase::handshake;
  bool reading_ = false, writing_ = false, waiting_for_hangup_ = false;  // operations in progress
  bool half_closed_ = false;                                             // the client sends no more
  bool closes_soon_ = false;

  std::string input_;         // not parsed yet
  std::vector<char> buffer_;  // of the read in progress
  RequestReader reader_;
  RequestReader::Stage stage_ = RequestReader::Stage::header;
  size_t body_bytes_ = 0;  // of this connection in HttpShared::body_bytes

  std::shared_ptr<Outbox> outbox_;  // of the response in progress
  std::string sending_;
  size_t sent_ = 0;  // bytes of sending_

  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand> timer_;
  // Moving a deadline back does not touch the timer: it fires early and is started again.
  Clock::time_point deadline_ = never, timer_at_ = never;
};

}  // namespace heddle::server

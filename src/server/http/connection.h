// The connection of one client: its requests one after the other, each answered before the next is read.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "server/api/api_error.h"
#include "server/http/request_reader.h"
#include "server/http/response.h"
#include "server/http/server.h"

namespace heddle::server {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

// What the connections of a server share; it outlives them.
struct HttpShared {
  HttpOptions options;
  RequestHandler handler;
  boost::asio::ssl::context* tls = nullptr;    // null: no TLS
  mutable std::atomic<size_t> body_bytes = 0;  // of bodies that are being read
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
  void count_body(size_t bytes);  // that have come
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

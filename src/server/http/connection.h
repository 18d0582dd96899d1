// One client: its requests one after the other, each answered before the next is looked at.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <variant>

#include "base/clock.h"
#include "server/api/api_error.h"
#include "server/http/answer.h"
#include "server/http/reader.h"
#include "server/http/server.h"

namespace heddle::server {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, Strand>;

// What connections of one server share, and outlives them.
struct HttpHouse {
  HttpOptions options;
  Handler handler;
  boost::asio::ssl::context* tls = nullptr;  // null: plain
  mutable std::atomic<size_t> bodies = 0;    // bytes of those that are being read
};

// Everything but wake() happens on its strand.
class Connection final : public Line, public std::enable_shared_from_this<Connection> {
 public:
  // `crowded`: it is only told that there are too many. `seat` is given up when the socket is closed.
  Connection(const HttpHouse& house, Socket socket, bool crowded, std::shared_ptr<void> seat);

  void start();
  void end_soon();  // after the answer under way, now if there is none
  void close();     // now
  void wake() override;
  Strand strand() { return socket().get_executor(); }

 private:
  using Error = boost::system::error_code;
  // handshake -> reading -> answering -> reading ... -> ending -> closed
  enum class Phase { handshake, reading, answering, ending, closed };

  Socket& socket();
  template <class Operation>
  void on_stream(Operation operation) {
    std::visit(operation, stream_);
  }

  void greet();
  void read();
  void did_read(Error error, size_t bytes);
  void parse();
  void body_began();
  void count_body(size_t bytes);  // so many are here
  void handle();
  Outbox& outbox();
  void refuse(const ApiError& error);
  void no_more_comes();
  void watch();
  void wait_for_hangup();
  void flush();
  void write();
  void did_write(Error error, size_t bytes);
  void answered(bool keep_alive);
  void end();
  void drain();

  void within(double seconds);  // expired() is called after them, unless told otherwise
  void without_limit() { deadline_ = never; }
  void sleep();
  void expired();

  static constexpr Clock::time_point never = Clock::time_point::max();

  const HttpHouse& house_;
  std::variant<Socket, boost::asio::ssl::stream<Socket>> stream_;
  std::string peer_;
  const bool crowded_;
  std::shared_ptr<void> seat_;

  Phase phase_ = Phase::handshake;
  bool reading_ = false, writing_ = false, listening_ = false;  // operations under way; listening: for a hangup
  bool half_closed_ = false;                                    // the client sends no more
  bool ends_soon_ = false;

  std::string came_;         // and was not read yet
  std::vector<char> piece_;  // of a read under way
  RequestReader reader_;
  RequestReader::Stage stage_ = RequestReader::Stage::header;
  size_t body_ = 0;  // bytes of it, as they are counted in the house

  std::shared_ptr<Outbox> outbox_;  // of the answer in the making
  std::string sending_;
  size_t sent_ = 0;  // of it

  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand> timer_;
  Clock::time_point deadline_ = never, wakes_ = never;  // the timer may wake up too early, and then sleeps again
};

}  // namespace heddle::server

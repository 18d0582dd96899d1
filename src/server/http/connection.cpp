// Callbacks on one strand. A read is always in progress, even during a response: that is how a disconnected client is
// noticed.
#include "server/http/connection.h"

#include <poll.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

namespace heddle::server {
namespace {

namespace asio = boost::asio;

constexpr size_t small_read = 4096, body_read = 65536;  // bytes
constexpr size_t max_ahead = 65536;                     // bytes of further requests that are read during a response
constexpr size_t max_kept = 65536;                      // bytes of memory that an empty buffer keeps
constexpr double linger_seconds = 1;                    // for the client to read the last response

std::variant<Socket, asio::ssl::stream<Socket>> stream_for(Socket socket, asio::ssl::context* tls) {
  using Stream = std::variant<Socket, asio::ssl::stream<Socket>>;
  return tls ? Stream(std::in_place_index<1>, std::move(socket), *tls)
             : Stream(std::in_place_index<0>, std::move(socket));
}

std::string text_of(const asio::ip::tcp::endpoint& endpoint) {
  const bool v6 = endpoint.address().is_v6();
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", endpoint.address().to_string(), v6 ? "]" : "", endpoint.port());
}

template <class Text>
void clear(Text& buffer) {
  buffer.clear();
  if (buffer.capacity() > max_kept) buffer = Text();
}

ApiError too_slow(const char* what) {
  return {408, "request_timeout", "", "the {} of the request did not arrive in time", what};
}

}  // namespace

Connection::Connection(const HttpShared& shared, Socket socket, bool over_limit, std::shared_ptr<void> slot)
    : shared_(shared),
      stream_(stream_for(std::move(socket), shared.tls.get())),
      over_limit_(over_limit),
      slot_(std::move(slot)),
      reader_(shared.options.max_header, shared.options.max_body),
      timer_(strand()) {}

Socket& Connection::socket() {
  if (auto* tls = std::get_if<asio::ssl::stream<Socket>>(&stream_)) return tls->next_layer();
  return std::get<Socket>(stream_);
}

void Connection::start() {
  Error error;
  const auto endpoint = socket().remote_endpoint(error);
  if (error) return close();  // it has disconnected already
  peer_ = text_of(endpoint);
  socket().set_option(asio::ip::tcp::no_delay(true), error);
  set_deadline(shared_.options.header_seconds);
  auto* tls = std::get_if<asio::ssl::stream<Socket>>(&stream_);
  if (!tls) return begin();
  tls->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](Error failed) {
    if (failed) return self->close();
    if (self->phase_ == Phase::handshake) self->begin();
  });
}

void Connection::begin() {
  phase_ = Phase::reading;
  if (over_limit_) {
    ApiError error(503, "too_many_connections", "", "too many connections: try again later");
    error.retry_after = 1;
    return refuse(error);
  }
  if (closes_soon_) return shut_down();
  read();
}

void Connection::read() {
  if (reading_) return;
  reading_ = true;
  buffer_.resize(stage_ == RequestReader::Stage::body ? body_read : small_read);
  on_stream([this](auto& stream) {
    stream.async_read_some(asio::buffer(buffer_),
                           [self = shared_from_this()](Error error, size_t bytes) { self->on_read(error, bytes); });
  });
}

void Connection::on_read(Error error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::closed) return;
  if (error == asio::error::eof) return on_end_of_input();
  if (error) return close();
  if (phase_ == Phase::closing) return discard_input();
  input_.append(buffer_.data(), bytes);
  if (buffer_.size() > small_read && stage_ != RequestReader::Stage::body) clear(buffer_);
  if (phase_ == Phase::responding) return read_ahead();
  if (!reader_.begun()) set_deadline(shared_.options.header_seconds);
  parse();
}

void Connection::parse() {
  const auto before = stage_;
  try {
    stage_ = reader_.read(input_);
    if (stage_ == RequestReader::Stage::body) {
      if (stage_ != before) begin_body();
      count_body(reader_.body_bytes());
    }
  } catch (const ApiError& error) {
    return refuse(error);
  }
  if (stage_ == RequestReader::Stage::complete) return handle();
  if (half_closed_) return on_end_of_input();
  if (stage_ != before && reader_.framing().expects_continue && input_.empty()) outbox().probe();
  read();
}

void Connection::begin_body() {
  set_deadline(shared_.options.body_seconds);
  if (shared_.options.admit) shared_.options.admit(reader_.head());
}

void Connection::count_body(size_t bytes) {
  const size_t all = shared_.body_bytes += bytes - body_bytes_;
  body_bytes_ = bytes;
  if (bytes == 0 || all <= shared_.options.max_bodies) return;
  ApiError error(503, "overloaded", "", "too many large requests are being sent: try again later");
  error.retry_after = 1;
  throw error;
}

Outbox& Connection::outbox() {
  if (!outbox_) outbox_ = std::make_shared<Outbox>(*this, reader_.framing(), shared_.options.max_unsent);
  if (closes_soon_ || shared_.draining) outbox_->close_after();
  return *outbox_;
}

void Connection::handle() {
  count_body(0);
  outbox();
  const std::shared_ptr<Outbox> current = outbox_;
  const std::shared_ptr<Responder> responder = make_responder(current);
  HttpRequest request = reader_.take();
  request.peer = peer_;
  stage_ = RequestReader::Stage::header;
  phase_ = Phase::responding;
  clear_deadline();
  if (input_.empty()) clear(input_);
  try {
    shared_.handler(std::move(request), responder);
  } catch (const ApiError& error) {
    current->fail(error_response(error));
  } catch (const std::exception& error) {
    current->fail(error_response({500, "internal_error", "", "a fault of the server: {}", error.what()}));
  }
  if (half_closed_) current->probe();
  read_ahead();
}

// The request cannot be read to its end, so it is unknown where the next one begins.
void Connection::refuse(const ApiError& error) {
  count_body(0);
  phase_ = Phase::responding;
  stage_ = RequestReader::Stage::header;
  clear_deadline();
  outbox().close_after();
  if (shared_.options.refuse) {
    HttpRequest head = reader_.head();
    head.peer = peer_;
    shared_.options.refuse(std::move(head), make_responder(outbox_), error);
  } else {
    outbox_->send(error_response(error));
  }
  read_ahead();
}

void Connection::on_end_of_input() {
  half_closed_ = true;
  switch (phase_) {
    case Phase::reading:
      if (reader_.begun()) return refuse({400, "", "", "the request ended before it was complete"});
      return shut_down();
    case Phase::responding:  // it may still read, or it may have disconnected
      outbox_->probe();
      return read_ahead();
    default:
      return close();
  }
}

// During a response.
void Connection::read_ahead() {
  if (half_closed_ || input_.size() >= max_ahead) return wait_for_hangup();
  read();
}

void Connection::wait_for_hangup() {
  if (waiting_for_hangup_) return;
  waiting_for_hangup_ = true;
  socket().async_wait(Socket::wait_error, [self = shared_from_this()](Error error) {
    self->waiting_for_hangup_ = false;
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close();
    self->wait_for_hangup();
  });
  pollfd state{.fd = socket().native_handle()};  // a hangup before the wait began
  if (::poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP))) close();
}

void Connection::wake() {
  asio::post(strand(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush();
  });
}

void Connection::flush() {
  if (!outbox_ || phase_ == Phase::closed) return;
  if (outbox_->aborted()) return close();
  if (writing_) return;
  const Outbox::Taken taken = outbox_->take(sending_);
  if (!sending_.empty()) return write();
  if (taken.complete) return end_response(taken.keep_alive);
}

void Connection::write() {
  writing_ = true;
  if (phase_ == Phase::responding) set_deadline(shared_.options.write_seconds);
  on_stream([this](auto& stream) {
    stream.async_write_some(asio::buffer(sending_) + sent_,
                            [self = shared_from_this()](Error error, size_t bytes) { self->on_write(error, bytes); });
  });
}

void Connection::on_write(Error error, size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::closed) return;
  if (error) return close();
  outbox_->sent(bytes);
  sent_ += bytes;
  if (sent_ < sending_.size()) return write();
  sent_ = 0;
  clear(sending_);
  if (phase_ == Phase::responding) clear_deadline();
  flush();
}

void Connection::end_response(bool keep_alive) {
  outbox_->disconnect();
  outbox_.reset();
  if (!keep_alive || closes_soon_) return shut_down();
  phase_ = Phase::reading;
  set_deadline(input_.empty() ? shared_.options.idle_seconds : shared_.options.header_seconds);
  parse();
}

void Connection::close_soon() {
  closes_soon_ = true;
  if (outbox_) outbox_->close_after();
  if (phase_ == Phase::reading && !reader_.begun() && input_.empty()) shut_down();
}

// The client gets time to read the response: if the socket were closed with input that was not read, the system would
// reset the connection, and the client could lose what was sent.
void Connection::shut_down() {
  if (half_closed_) return close();
  phase_ = Phase::closing;
  set_deadline(linger_seconds);
  auto* tls = std::get_if<asio::ssl::stream<Socket>>(&stream_);
  if (!tls) return discard_input();
  tls->async_shutdown([self = shared_from_this()](Error) {
    if (self->phase_ == Phase::closing) self->discard_input();
  });
}

void Connection::discard_input() {
  Error error;
  socket().shutdown(Socket::shutdown_send, error);
  if (reading_) return;
  reading_ = true;
  buffer_.resize(small_read);
  socket().async_read_some(asio::buffer(buffer_),
                           [self = shared_from_this()](Error failed, size_t bytes) { self->on_read(failed, bytes); });
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  count_body(0);
  clear_deadline();
  timer_.cancel();
  Error error;
  socket().close(error);
  slot_.reset();
  if (outbox_) outbox_->disconnect();
}

void Connection::set_deadline(double seconds) {
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  if (deadline_ < timer_at_) start_timer();
}

void Connection::start_timer() {
  timer_at_ = deadline_;
  timer_.expires_at(timer_at_);
  timer_.async_wait([self = shared_from_this()](Error error) {
    if (error || self->phase_ == Phase::closed) return;
    self->timer_at_ = never;
    if (self->deadline_ == never) return;
    if (self->deadline_ > Clock::now()) return self->start_timer();
    self->on_deadline();
  });
}

void Connection::on_deadline() {
  clear_deadline();
  if (phase_ != Phase::reading || !reader_.begun())
    return close();  // an idle connection, or a client that does not read
  refuse(too_slow(stage_ == RequestReader::Stage::body ? "body" : "header"));
}

}  // namespace heddle::server

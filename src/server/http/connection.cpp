// Callbacks on one strand. A read is always under way, also while an answer is made: that is how a client that has gone
// is noticed.
#include "server/http/connection.h"

#include <poll.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

namespace heddle::server {
namespace {

namespace asio = boost::asio;

constexpr size_t small_read = 4096, body_read = 65536;  // bytes
constexpr size_t most_ahead = 65536;                    // bytes of further requests that are kept while one is answered
constexpr size_t most_kept = 65536;                     // bytes of memory that a buffer keeps when it is empty
constexpr double farewell = 1;                          // seconds in which the client may read the last answer

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
  if (buffer.capacity() > most_kept) buffer = Text();
}

ApiError too_slow(const char* what) {
  return {408, "request_timeout", "", "the {} of the request did not come in time", what};
}

}  // namespace

Connection::Connection(const HttpHouse& house, Socket socket, bool crowded, std::shared_ptr<void> seat)
    : house_(house),
      stream_(stream_for(std::move(socket), house.tls)),
      crowded_(crowded),
      seat_(std::move(seat)),
      reader_(house.options.most_header, house.options.most_body),
      timer_(strand()) {}

Socket& Connection::socket() {
  if (auto* tls = std::get_if<asio::ssl::stream<Socket>>(&stream_)) return tls->next_layer();
  return std::get<Socket>(stream_);
}

void Connection::start() {
  Error error;
  const auto endpoint = socket().remote_endpoint(error);
  if (error) return close();  // it has gone already
  peer_ = text_of(endpoint);
  socket().set_option(asio::ip::tcp::no_delay(true), error);
  within(house_.options.header_seconds);
  auto* tls = std::get_if<asio::ssl::stream<Socket>>(&stream_);
  if (!tls) return greet();
  tls->async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](Error failed) {
    if (failed) return self->close();
    if (self->phase_ == Phase::handshake) self->greet();
  });
}

void Connection::greet() {
  phase_ = Phase::reading;
  if (crowded_) {
    ApiError error(503, "too_many_connections", "", "there are too many connections: try again later");
    error.retry_after = 1;
    return refuse(error);
  }
  if (ends_soon_) return end();
  read();
}

void Connection::read() {
  if (reading_) return;
  reading_ = true;
  piece_.resize(stage_ == RequestReader::Stage::body ? body_read : small_read);
  on_stream([this](auto& stream) {
    stream.async_read_some(asio::buffer(piece_),
                           [self = shared_from_this()](Error error, size_t bytes) { self->did_read(error, bytes); });
  });
}

void Connection::did_read(Error error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::closed) return;
  if (error == asio::error::eof) return no_more_comes();
  if (error) return close();
  if (phase_ == Phase::ending) return drain();
  came_.append(piece_.data(), bytes);
  if (piece_.size() > small_read && stage_ != RequestReader::Stage::body) clear(piece_);
  if (phase_ == Phase::answering) return watch();
  if (!reader_.begun()) within(house_.options.header_seconds);
  parse();
}

void Connection::parse() {
  const auto before = stage_;
  try {
    stage_ = reader_.read(came_);
    if (stage_ == RequestReader::Stage::body) {
      if (stage_ != before) body_began();
      count_body(reader_.body_bytes());
    }
  } catch (const ApiError& error) {
    return refuse(error);
  }
  if (stage_ == RequestReader::Stage::whole) return handle();
  if (half_closed_) return no_more_comes();
  if (stage_ != before && reader_.manners().waits && came_.empty()) outbox().probe();
  read();
}

void Connection::body_began() {
  within(house_.options.body_seconds);
  if (house_.options.admit) house_.options.admit(reader_.head());
}

void Connection::count_body(size_t bytes) {
  const size_t all = house_.bodies += bytes - body_;
  body_ = bytes;
  if (bytes == 0 || all <= house_.options.most_bodies) return;
  ApiError error(503, "overloaded", "", "too many large requests are being sent: try again later");
  error.retry_after = 1;
  throw error;
}

Outbox& Connection::outbox() {
  if (!outbox_) outbox_ = std::make_shared<Outbox>(*this, reader_.manners(), house_.options.most_unsent);
  if (ends_soon_) outbox_->close_after();
  return *outbox_;
}

void Connection::handle() {
  count_body(0);
  outbox();
  const std::shared_ptr<Outbox> current = outbox_;
  const std::shared_ptr<Answer> answer = answer_of(current);
  HttpRequest request = reader_.take();
  request.peer = peer_;
  stage_ = RequestReader::Stage::header;
  phase_ = Phase::answering;
  without_limit();
  if (came_.empty()) clear(came_);
  try {
    house_.handler(std::move(request), answer);
  } catch (const ApiError& error) {
    current->fail(error_response(error));
  } catch (const std::exception& error) {
    current->fail(error_response({500, "internal_error", "", "this is a bug: {}", error.what()}));
  }
  if (half_closed_) current->probe();
  watch();
}

// What came cannot be answered, and where the next request begins is not known.
void Connection::refuse(const ApiError& error) {
  count_body(0);
  phase_ = Phase::answering;
  stage_ = RequestReader::Stage::header;
  without_limit();
  outbox().close_after();
  if (house_.options.refuse) {
    HttpRequest head = reader_.head();
    head.peer = peer_;
    house_.options.refuse(std::move(head), answer_of(outbox_), error);
  } else {
    outbox_->send(error_response(error));
  }
  watch();
}

void Connection::no_more_comes() {
  half_closed_ = true;
  switch (phase_) {
    case Phase::reading:
      if (reader_.begun()) return refuse({400, "", "", "the request ended before it was whole"});
      return end();
    case Phase::answering:  // it may still read, or it may have gone
      outbox_->probe();
      return watch();
    default:
      return close();
  }
}

// While an answer is made.
void Connection::watch() {
  if (half_closed_ || came_.size() >= most_ahead) return wait_for_hangup();
  read();
}

void Connection::wait_for_hangup() {
  if (listening_) return;
  listening_ = true;
  socket().async_wait(Socket::wait_error, [self = shared_from_this()](Error error) {
    self->listening_ = false;
    if (self->phase_ == Phase::closed) return;
    if (error) return self->close();
    self->wait_for_hangup();
  });
  pollfd state{.fd = socket().native_handle()};  // now that nothing can be missed
  if (::poll(&state, 1, 0) == 1 && (state.revents & (POLLERR | POLLHUP))) close();
}

void Connection::wake() {
  asio::post(strand(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush();
  });
}

void Connection::flush() {
  if (!outbox_ || phase_ == Phase::closed) return;
  if (outbox_->is_cut()) return close();
  if (writing_) return;
  const Outbox::Taken taken = outbox_->take(sending_);
  if (!sending_.empty()) return write();
  if (taken.ended) return answered(taken.keep_alive);
}

void Connection::write() {
  writing_ = true;
  if (phase_ == Phase::answering) within(house_.options.write_seconds);
  on_stream([this](auto& stream) {
    stream.async_write_some(asio::buffer(sending_) + sent_,
                            [self = shared_from_this()](Error error, size_t bytes) { self->did_write(error, bytes); });
  });
}

void Connection::did_write(Error error, size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::closed) return;
  if (error) return close();
  outbox_->sent(bytes);
  sent_ += bytes;
  if (sent_ < sending_.size()) return write();
  sent_ = 0;
  clear(sending_);
  if (phase_ == Phase::answering) without_limit();
  flush();
}

void Connection::answered(bool keep_alive) {
  outbox_->disconnect();
  outbox_.reset();
  if (!keep_alive || ends_soon_) return end();
  phase_ = Phase::reading;
  within(came_.empty() ? house_.options.idle_seconds : house_.options.header_seconds);
  parse();
}

void Connection::end_soon() {
  ends_soon_ = true;
  if (outbox_) outbox_->close_after();
  if (phase_ == Phase::reading && !reader_.begun() && came_.empty()) end();
}

// The client is given time to read what was sent: bytes of it that nobody reads here would make the system tell it that
// the connection was broken.
void Connection::end() {
  if (half_closed_) return close();
  phase_ = Phase::ending;
  within(farewell);
  auto* tls = std::get_if<asio::ssl::stream<Socket>>(&stream_);
  if (!tls) return drain();
  tls->async_shutdown([self = shared_from_this()](Error) {
    if (self->phase_ == Phase::ending) self->drain();
  });
}

void Connection::drain() {
  Error error;
  socket().shutdown(Socket::shutdown_send, error);
  if (reading_) return;
  reading_ = true;
  piece_.resize(small_read);
  socket().async_read_some(asio::buffer(piece_),
                           [self = shared_from_this()](Error failed, size_t bytes) { self->did_read(failed, bytes); });
}

void Connection::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  count_body(0);
  without_limit();
  timer_.cancel();
  Error error;
  socket().close(error);
  seat_.reset();
  if (outbox_) outbox_->disconnect();
}

void Connection::within(double seconds) {
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  if (deadline_ < wakes_) sleep();
}

void Connection::sleep() {
  wakes_ = deadline_;
  timer_.expires_at(wakes_);
  timer_.async_wait([self = shared_from_this()](Error error) {
    if (error || self->phase_ == Phase::closed) return;
    self->wakes_ = never;
    if (self->deadline_ == never) return;
    if (self->deadline_ > Clock::now()) return self->sleep();
    self->expired();
  });
}

void Connection::expired() {
  without_limit();
  if (phase_ != Phase::reading || !reader_.begun()) return close();  // nobody said anything, or nobody reads
  refuse(too_slow(stage_ == RequestReader::Stage::body ? "body" : "header"));
}

}  // namespace heddle::server

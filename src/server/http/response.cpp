// Responses as bytes: heads and chunks, in the only order that HTTP allows.
#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "server/http/connection.h"

namespace heddle::server {
namespace {

class OutboxResponder : public Responder {
 public:
  explicit OutboxResponder(std::shared_ptr<Outbox> outbox) : outbox_(std::move(outbox)) {}
  ~OutboxResponder() override { outbox_->drop(); }
  void send(HttpResponse response) override { outbox_->send(std::move(response)); }
  void start(HttpResponse head) override { outbox_->start(std::move(head)); }
  void write(std::string chunk) override { outbox_->write(std::move(chunk)); }
  void finish() override { outbox_->finish(); }
  void on_disconnect(std::function<void()> callback) override { outbox_->on_disconnect(std::move(callback)); }

 private:
  std::shared_ptr<Outbox> outbox_;
};

void expect_one_line(const std::string& text) {
  check(std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }),
        "a header has no control characters");
}

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string date_of(std::time_t now) {
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}
const std::string& date() {
  static thread_local std::pair<std::time_t, std::string> last{-1, ""};
  const std::time_t now = std::time(nullptr);
  if (now != last.first) last = {now, date_of(now)};
  return last.second;
}

std::string_view reason(unsigned status) {
  const auto text = boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
  return {text.data(), text.size()};
}

bool has_body(unsigned status) { return status >= 200 && status != 204 && status != 304; }

}  // namespace

void Outbox::write_head(const HttpResponse& response, bool whole) {
  check(phase_ == Phase::fresh, "a response has one head");
  expect_one_line(response.type);
  for (const Header& header : response.headers) {
    expect_one_line(header.name);
    expect_one_line(header.value);
  }
  const bool chunked = !whole && !framing_.http10 && has_body(response.status);
  if (!whole && framing_.http10) framing_.keep_alive = false;  // the end of the connection is the end of the body
  const auto out = std::back_inserter(pending_);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {}\r\nServer: heddle\r\n", response.status, reason(response.status),
                 date());
  if (has_body(response.status)) {
    if (!response.type.empty()) fmt::format_to(out, "Content-Type: {}\r\n", response.type);
    if (whole) fmt::format_to(out, "Content-Length: {}\r\n", response.body.size());
    if (chunked) pending_ += "Transfer-Encoding: chunked\r\n";
  }
  for (const Header& header : response.headers) fmt::format_to(out, "{}: {}\r\n", header.name, header.value);
  if (!framing_.keep_alive)
    pending_ += "Connection: close\r\n";
  else if (framing_.http10)
    pending_ += "Connection: keep-alive\r\n";
  pending_ += "\r\n";
  if (!has_body(response.status)) framing_.head_only = true;
  phase_ = Phase::streaming;
}

void Outbox::write_chunk(std::string_view text) {
  if (text.empty() || framing_.head_only) return;  // an empty chunk would end the body
  if (framing_.http10) {
    pending_ += text;
  } else {
    fmt::format_to(std::back_inserter(pending_), "{:x}\r\n", text.size());
    pending_ += text;
    pending_ += "\r\n";
  }
}

void Outbox::wake() {
  if (!connection_ || woken_) return;
  woken_ = true;
  connection_->wake();
}

void Outbox::abort() {
  aborted_ = true;
  pending_.clear();
  if (connection_) connection_->wake();  // even if it is awake: it may be in a write that never ends
}

// Callbacks are destroyed, or called, without the lock: they may hold anything.

void Outbox::send(HttpResponse response) {
  std::function<void()> unused;
  const std::lock_guard lock(mutex_);
  if (closed()) return;
  unused.swap(on_disconnect_);
  write_whole(response);
}

void Outbox::write_whole(const HttpResponse& response) {
  write_head(response, true);
  if (!framing_.head_only) pending_ += response.body;
  phase_ = Phase::complete;
  wake();
}

void Outbox::start(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (closed()) return;
  write_head(head, false);
  write_chunk(head.body);
  wake();
}

void Outbox::write(std::string chunk) {
  const std::lock_guard lock(mutex_);
  if (closed()) return;
  check(phase_ == Phase::streaming, "chunks come between start() and finish()");
  if (pending_.size() + unsent_ > max_unsent_) return abort();
  write_chunk(chunk);
  wake();
}

void Outbox::finish() {
  std::function<void()> unused;
  const std::lock_guard lock(mutex_);
  if (closed()) return;
  check(phase_ == Phase::streaming, "finish() comes after start()");
  if (!framing_.http10 && !framing_.head_only) pending_ += "0\r\n\r\n";
  phase_ = Phase::complete;
  unused.swap(on_disconnect_);
  wake();
}

void Outbox::on_disconnect(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::complete) return;
    if (connection_) {
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  callback();
}

void Outbox::drop() {
  std::function<void()> unused;
  const std::lock_guard lock(mutex_);
  unused.swap(on_disconnect_);
  if (phase_ != Phase::complete && !aborted_) abort();
}

void Outbox::fail(HttpResponse instead) {
  std::function<void()> unused;
  const std::lock_guard lock(mutex_);
  if (closed() || phase_ == Phase::complete) return;
  unused.swap(on_disconnect_);
  if (phase_ == Phase::fresh)
    write_whole(instead);
  else
    abort();
  failed_ = true;
}

Outbox::Taken Outbox::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  bytes.clear();
  bytes.swap(pending_);
  unsent_ = bytes.size();
  woken_ = false;
  return {.complete = phase_ == Phase::complete, .keep_alive = framing_.keep_alive};
}

bool Outbox::aborted() {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void Outbox::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  unsent_ -= bytes;
}

void Outbox::close_after() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::fresh) framing_.keep_alive = false;
}

void Outbox::probe() {
  const std::lock_guard lock(mutex_);
  if (!connection_ || phase_ == Phase::complete || framing_.http10) return;
  if (phase_ == Phase::fresh)
    pending_ += "HTTP/1.1 100 Continue\r\n\r\n";  // allowed any number of times before the response
  else if (!framing_.head_only)
    pending_ += "0";  // the size of the next chunk may begin with zeros
  wake();
}

void Outbox::disconnect() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    connection_ = nullptr;
    if (phase_ != Phase::complete) callback.swap(on_disconnect_);
  }
  if (callback) callback();
}

std::shared_ptr<Responder> make_responder(std::shared_ptr<Outbox> outbox) {
  return std::make_shared<OutboxResponder>(std::move(outbox));
}

}  // namespace heddle::server

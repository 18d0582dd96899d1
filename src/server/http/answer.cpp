// Responses as bytes: heads, chunks, and the order in which they may come.
#include "server/http/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace heddle::server {
namespace {

class OneAnswer : public Answer {
 public:
  explicit OneAnswer(std::shared_ptr<Outbox> outbox) : outbox_(std::move(outbox)) {}
  ~OneAnswer() override { outbox_->drop(); }
  void send(HttpResponse response) override { outbox_->send(std::move(response)); }
  void start(HttpResponse head) override { outbox_->start(std::move(head)); }
  void write(std::string piece) override { outbox_->write(std::move(piece)); }
  void finish() override { outbox_->finish(); }
  void when_gone(std::function<void()> gone) override { outbox_->when_gone(std::move(gone)); }

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

void Outbox::begin(const HttpResponse& response, bool whole) {
  check(phase_ == Phase::fresh, "an answer begins once");
  expect_one_line(response.type);
  for (const Header& header : response.headers) expect_one_line(header.name), expect_one_line(header.value);
  const bool chunked = !whole && !manners_.old && has_body(response.status);
  if (!whole && manners_.old) manners_.keep_alive = false;  // the end of the body is the end of the connection
  const auto out = std::back_inserter(waits_);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {}\r\nServer: heddle\r\n", response.status, reason(response.status),
                 date());
  if (has_body(response.status)) {
    if (!response.type.empty()) fmt::format_to(out, "Content-Type: {}\r\n", response.type);
    if (whole) fmt::format_to(out, "Content-Length: {}\r\n", response.body.size());
    if (chunked) waits_ += "Transfer-Encoding: chunked\r\n";
  }
  for (const Header& header : response.headers) fmt::format_to(out, "{}: {}\r\n", header.name, header.value);
  if (!manners_.keep_alive)
    waits_ += "Connection: close\r\n";
  else if (manners_.old)
    waits_ += "Connection: keep-alive\r\n";
  waits_ += "\r\n";
  if (!has_body(response.status)) manners_.head_only = true;
  phase_ = Phase::streaming;
}

void Outbox::add_chunk(std::string_view piece) {
  if (piece.empty() || manners_.head_only) return;  // an empty chunk would be the last one
  if (manners_.old) {
    waits_ += piece;
  } else {
    fmt::format_to(std::back_inserter(waits_), "{:x}\r\n", piece.size());
    waits_ += piece;
    waits_ += "\r\n";
  }
}

void Outbox::wake() {
  if (!line_ || awake_) return;
  awake_ = true;
  line_->wake();
}

void Outbox::cut() {
  cut_ = true;
  waits_.clear();
  if (line_) line_->wake();  // also one that is awake and busy with a write that may never end
}

void Outbox::send(HttpResponse response) {
  std::function<void()> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (over()) return;
  gone.swap(gone_);
  whole(response);
}

void Outbox::whole(const HttpResponse& response) {
  begin(response, true);
  if (!manners_.head_only) waits_ += response.body;
  phase_ = Phase::ended;
  wake();
}

void Outbox::start(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (over()) return;
  begin(head, false);
  add_chunk(head.body);
  wake();
}

void Outbox::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (over()) return;
  check(phase_ == Phase::streaming, "pieces come between start and finish");
  if (waits_.size() + taken_ > most_unsent_) return cut();
  add_chunk(piece);
  wake();
}

void Outbox::finish() {
  std::function<void()> gone;
  const std::lock_guard lock(mutex_);
  if (over()) return;
  check(phase_ == Phase::streaming, "what is finished was started");
  if (!manners_.old && !manners_.head_only) waits_ += "0\r\n\r\n";
  phase_ = Phase::ended;
  gone.swap(gone_);
  wake();
}

void Outbox::when_gone(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::ended) return;
    if (line_) {
      gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void Outbox::drop() {
  std::function<void()> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(gone_);
  if (phase_ != Phase::ended && !cut_) cut();
}

void Outbox::fail(HttpResponse instead) {
  std::function<void()> gone;
  const std::lock_guard lock(mutex_);
  if (over() || phase_ == Phase::ended) return;
  gone.swap(gone_);
  if (phase_ == Phase::fresh)
    whole(instead);
  else
    cut();
  failed_ = true;
}

Outbox::Taken Outbox::take(std::string& bytes) {
  const std::lock_guard lock(mutex_);
  bytes.clear();
  bytes.swap(waits_);
  taken_ = bytes.size();
  awake_ = false;
  return {.ended = phase_ == Phase::ended, .keep_alive = manners_.keep_alive};
}

bool Outbox::is_cut() {
  const std::lock_guard lock(mutex_);
  return cut_;
}

void Outbox::sent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
}

void Outbox::close_after() {
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::fresh) manners_.keep_alive = false;
}

void Outbox::probe() {
  const std::lock_guard lock(mutex_);
  if (!line_ || phase_ == Phase::ended || manners_.old) return;
  if (phase_ == Phase::fresh)
    waits_ += "HTTP/1.1 100 Continue\r\n\r\n";  // may come at any time before the answer, any number of times
  else if (!manners_.head_only)
    waits_ += "0";  // the size of the next chunk may begin with zeros
  wake();
}

void Outbox::disconnect() {
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    line_ = nullptr;
    if (phase_ != Phase::ended) gone.swap(gone_);
  }
  if (gone) gone();
}

std::shared_ptr<Answer> answer_of(std::shared_ptr<Outbox> outbox) {
  return std::make_shared<OneAnswer>(std::move(outbox));
}

}  // namespace heddle::server

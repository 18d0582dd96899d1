// All clients on one thread: one that waits costs nothing, and 20 000 chunks a second are a tenth of its time. Of HTTP,
// as little as servers send is parsed, at the speed of memory.
#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "main/bench/client.h"
#include "main/progress.h"

namespace heddle {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Failed = boost::system::error_code;

// What all clients share.
struct Job {
  const ServerAddress& server;
  const std::string& api_key;
  const std::vector<std::string>& bodies;
  tcp::resolver::results_type addresses;
  ClientTraffic traffic;
  size_t next = 0;  // of the bodies
  Clock::time_point start = Clock::now();
  bool counted = true;  // false: the server does not count tokens

  void note(const std::string& reason) {
    if (traffic.reason.empty()) traffic.reason = reason;
  }
};

class Client {
 public:
  Client(asio::io_context& io, Job& job) : job_(job), socket_(io) {}

  void next() {
    if (job_.next == job_.bodies.size()) return end();
    const std::string& body = job_.bodies[job_.next++];
    const std::string key = job_.api_key.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", job_.api_key);
    request_ = fmt::format(
        "POST {}/completions HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nAccept: "
        "text/event-stream\r\n{}Content-Length: {}\r\n\r\n{}",
        job_.server.base, job_.server.host, job_.server.port, key, body.size(), body);
    response_.emplace([this](std::string_view event) { on_event(event); });
    chunks_ = 0;
    counted_ = done_ = false;
    busy_ = true;
    used_ = socket_.is_open();
    sent_ = alive_ = Clock::now();
    used_ ? send() : connect();
  }
  void cut_if_silent(double seconds) {
    if (!busy_ || seconds_since(alive_) < seconds) return;
    silent_ = true;
    Failed error;
    socket_.close(error);  // pending operations fail
  }
  bool done() const { return !busy_; }

 private:
  void connect() {
    asio::async_connect(socket_, job_.addresses, [this](Failed error, const tcp::endpoint&) {
      if (error) return fail(fmt::format("{}:{}: {}", job_.server.host, job_.server.port, error.message()));
      socket_.set_option(tcp::no_delay(true), error);
      send();
    });
  }
  void send() {
    asio::async_write(socket_, asio::buffer(request_), [this](Failed error, size_t) {
      if (error) return on_error(error);
      read();
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(bytes_), [this](Failed error, size_t count) {
      try {
        alive_ = Clock::now();
        if (error == asio::error::eof && response_->ends_with_connection()) return complete();
        if (error) return on_error(error);
        used_ = false;
        if (response_->take({bytes_.data(), count})) return complete();
        read();
      } catch (const std::exception& wrong) {
        fail(wrong.what());
      }
    });
  }

  // A server may close a connection that was idle: then the request is sent on another one.
  void on_error(Failed error) {
    if (!used_ || silent_) return fail(silent_ ? "nothing came for too long" : error.message());
    used_ = false;
    close();
    connect();
  }

  void on_event(std::string_view event) {
    if (event == "[DONE]") {
      done_ = true;
      return;
    }
    const auto json = nlohmann::json::parse(event);
    if (json.contains("error")) throw Error("{}", json["error"].dump());
    if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) {
      job_.traffic.generated += usage->value("completion_tokens", uint64_t(0));
      job_.traffic.prompt += usage->value("prompt_tokens", uint64_t(0));
      if (const auto details = usage->find("prompt_tokens_details"); details != usage->end() && details->is_object())
        job_.traffic.cached += details->value("cached_tokens", uint64_t(0));
      counted_ = true;
    }
    const auto choices = json.find("choices");
    if (choices == json.end() || choices->empty()) return;
    const auto text = (*choices)[0].find("text");
    if (text == (*choices)[0].end() || !text->is_string() || text->get_ref<const std::string&>().empty()) return;
    const auto now = Clock::now();
    const double since = std::chrono::duration<double>(now - (chunks_ ? last_ : sent_)).count();
    (chunks_ ? job_.traffic.gaps : job_.traffic.first).push_back(since);
    last_ = now;
    ++chunks_;
    ++job_.traffic.chunks;
  }

  void complete() {
    ClientTraffic& traffic = job_.traffic;
    traffic.seconds = seconds_since(job_.start);
    if (response_->status() == 200 && done_) {
      ++traffic.answered;
      traffic.whole.push_back(seconds_since(sent_));
      if (!counted_) job_.counted = false;
    } else {
      const bool refused = response_->status() == 429 || response_->status() == 503;
      ++(refused ? traffic.refused : traffic.failed);
      job_.note(response_->status() == 200
                    ? std::string("the stream ended without [DONE]")
                    : fmt::format("{}: {}", response_->status(), response_->body().substr(0, 500)));
    }
    if (!response_->keeps_alive()) close();
    next();
  }
  void fail(const std::string& reason) {
    ++job_.traffic.failed;
    job_.note(reason);
    job_.traffic.seconds = seconds_since(job_.start);
    close();
    next();
  }
  void close() {
    Failed error;
    socket_.close(error);
    silent_ = false;
  }
  void end() {
    close();
    busy_ = false;
  }

  Job& job_;
  tcp::socket socket_;
  std::string request_;
  std::vector<char> bytes_ = std::vector<char>(32768);
  std::optional<ResponseStream> response_;
  Clock::time_point sent_, last_, alive_;
  uint64_t chunks_ = 0;
  bool counted_ = false, done_ = false, busy_ = false, silent_ = false;
  bool used_ = false;  // the connection was used before, and no byte of this response has arrived
};

}  // namespace

ServerAddress parse_url(const std::string& url) {
  const auto wrong = [&](const char* why) {
    return Error("URL: expected a text such as http://127.0.0.1:8080, found {}{}", in_quotes(url), why);
  };
  std::string_view rest = url;
  if (rest.starts_with("https://")) throw wrong(" (TLS is not supported)");
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  ServerAddress server{
      .host = std::string(rest.substr(0, slash)), .port = "80", .base = std::string(rest.substr(slash))};
  while (server.base.ends_with('/')) server.base.pop_back();
  if (server.base.empty()) server.base = "/v1";
  const size_t colon = server.host.rfind(':');
  const size_t bracket = server.host.rfind(']');
  if (colon != server.host.npos && (bracket == server.host.npos || bracket < colon)) {
    server.port = server.host.substr(colon + 1);
    server.host.resize(colon);
  }
  if (server.host.starts_with('[') && server.host.ends_with(']'))
    server.host = server.host.substr(1, server.host.size() - 2);
  const bool number = !server.port.empty() && server.port.find_first_not_of("0123456789") == server.port.npos;
  if (server.host.empty() || !number || url.find_first_of(" \r\n\t?#") != url.npos) throw wrong("");
  return server;
}

ClientTraffic run_clients(const ServerAddress& server, const std::string& api_key,
                          const std::vector<std::string>& bodies, uint32_t clients, double timeout) {
  asio::io_context io(1);
  Job job{.server = server, .api_key = api_key, .bodies = bodies};
  Failed error;
  job.addresses = tcp::resolver(io).resolve(server.host, server.port, error);
  if (error) throw Error("{}:{}: {}", server.host, server.port, error.message());
  std::vector<std::unique_ptr<Client>> all;
  for (size_t i = 0; i < std::min<size_t>(clients, bodies.size()); ++i)
    all.push_back(std::make_unique<Client>(io, job));
  job.start = Clock::now();
  for (const auto& client : all) client->next();

  asio::steady_timer timer(io);
  ProgressLine progress(&std::cerr);
  const std::function<void()> poll = [&] {
    bool finished = true;
    for (const auto& client : all) {
      client->cut_if_silent(timeout);
      finished = finished && client->done();
    }
    progress.count("answered", job.traffic.answered + job.traffic.refused + job.traffic.failed, bodies.size(),
                   "requests");
    if (finished) return;
    timer.expires_after(std::chrono::milliseconds(100));
    timer.async_wait([&](Failed) { poll(); });
  };
  poll();
  io.run();
  if (!job.counted) job.traffic.generated = job.traffic.chunks;
  return std::move(job.traffic);
}

// --- responses ------------------------------------------------------------------------------------------------------
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; });
  return result;
}

size_t number_of(std::string_view text, int base, const char* what) {
  size_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (read.ec != std::errc() || read.ptr == text.data())
    throw Error("{}: expected a number, found {}", what, in_quotes(text));
  return number;
}

}  // namespace

std::optional<std::string> ResponseStream::line() {
  const size_t end = rest_.find("\r\n");
  if (end == rest_.npos) return std::nullopt;
  std::string text = rest_.substr(0, end);
  rest_.erase(0, end + 2);
  return text;
}

bool ResponseStream::take(std::string_view bytes) {
  rest_ += bytes;
  while (expect_ != Expect::whole) {
    switch (expect_) {
      case Expect::head: {
        const size_t end = rest_.find("\r\n\r\n");
        if (end == rest_.npos) return false;
        const std::string head = rest_.substr(0, end + 2);
        rest_.erase(0, end + 4);
        on_head(head);
        break;
      }
      case Expect::chunk_size: {
        const auto size = line();
        if (!size) return false;
        left_ = number_of(*size, 16, "the size of a chunk");
        expect_ = left_ ? Expect::chunk : Expect::last;
        break;
      }
      case Expect::last: {  // fields, if any, and an empty line
        const auto field = line();
        if (!field) return false;
        if (field->empty()) expect_ = Expect::whole;
        break;
      }
      case Expect::chunk_end:
        if (!line()) return false;
        expect_ = Expect::chunk_size;
        break;
      default: {
        const size_t here = expect_ == Expect::to_end ? rest_.size() : std::min(left_, rest_.size());
        add(std::string_view(rest_).substr(0, here));
        rest_.erase(0, here);
        left_ -= expect_ == Expect::to_end ? 0 : here;
        if (expect_ == Expect::to_end || left_ > 0) return false;
        expect_ = expect_ == Expect::chunk ? Expect::chunk_end : Expect::whole;
      }
    }
  }
  return true;
}

void ResponseStream::on_head(std::string_view head) {
  if (!head.starts_with("HTTP/1.") || head.size() < 12) throw Error("expected HTTP, found {}", in_quotes(head));
  status_ = unsigned(number_of(head.substr(9, 3), 10, "status"));
  if (status_ / 100 == 1) return;  // another head follows
  const std::string fields = lower(head);
  const auto field = [&](const char* name) {
    const size_t at = fields.find(std::string("\r\n") + name + ":");
    if (at == fields.npos) return std::string();
    const size_t from = fields.find_first_not_of(' ', fields.find(':', at) + 1);
    return fields.substr(from, fields.find("\r\n", from) - from);
  };
  keep_alive_ = field("connection") != "close" && head[7] == '1';
  events_ = field("content-type").starts_with("text/event-stream");
  const std::string length = field("content-length");
  if (field("transfer-encoding") == "chunked") {
    expect_ = Expect::chunk_size;
  } else if (!length.empty()) {
    left_ = number_of(length, 10, "Content-Length");
    expect_ = left_ ? Expect::counted : Expect::whole;
  } else {
    expect_ = Expect::to_end;
    keep_alive_ = false;
  }
}

void ResponseStream::add(std::string_view text) {
  body_ += text;
  if (!events_) return;
  size_t from = 0;
  for (size_t end; (end = body_.find('\n', from)) != body_.npos; from = end + 1) {
    const std::string_view one = std::string_view(body_).substr(from, end - from);
    if (one.starts_with("data: ")) event_(one.substr(6, one.size() - 6 - (one.ends_with('\r') ? 1 : 0)));
  }
  body_.erase(0, from);
}

}  // namespace heddle

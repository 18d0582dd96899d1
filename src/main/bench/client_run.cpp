// All clients on one thread: one that waits costs nothing, and 20 000 pieces a second are a tenth of its time.
#include "main/bench/client_run.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "main/bench/client_stream.h"
#include "main/progress.h"

namespace heddle {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Failed = boost::system::error_code;

// What all clients share.
struct Job {
  const Place& place;
  const std::string& api_key;
  const std::vector<std::string>& bodies;
  tcp::resolver::results_type addresses;
  ClientTraffic traffic;
  size_t next = 0;  // of the bodies
  Clock::time_point start = Clock::now();
  bool counted = true;  // false: a server does not say how many tokens it made

  void note(const std::string& reason) {
    if (traffic.reason.empty()) traffic.reason = reason;
  }
};

class Visitor {
 public:
  Visitor(asio::io_context& io, Job& job) : job_(job), socket_(io) {}

  void next() {
    if (job_.next == job_.bodies.size()) return end();
    const std::string& body = job_.bodies[job_.next++];
    const std::string key = job_.api_key.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", job_.api_key);
    request_ = fmt::format(
        "POST {}/completions HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: application/json\r\nAccept: "
        "text/event-stream\r\n{}Content-Length: {}\r\n\r\n{}",
        job_.place.base, job_.place.host, job_.place.port, key, body.size(), body);
    answer_.emplace([this](std::string_view event) { came(event); });
    pieces_ = 0;
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
    socket_.close(error);  // what waits for it fails
  }
  bool done() const { return !busy_; }

 private:
  void connect() {
    asio::async_connect(socket_, job_.addresses, [this](Failed error, const tcp::endpoint&) {
      if (error) return fail(fmt::format("{}:{}: {}", job_.place.host, job_.place.port, error.message()));
      socket_.set_option(tcp::no_delay(true), error);
      send();
    });
  }
  void send() {
    asio::async_write(socket_, asio::buffer(request_), [this](Failed error, size_t) {
      if (error) return broke(error);
      read();
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(bytes_), [this](Failed error, size_t count) {
      try {
        alive_ = Clock::now();
        if (error == asio::error::eof && answer_->ends_with_connection()) return whole();
        if (error) return broke(error);
        used_ = false;
        if (answer_->take({bytes_.data(), count})) return whole();
        read();
      } catch (const std::exception& wrong) {
        fail(wrong.what());
      }
    });
  }

  // A server may end a connection that nobody used for a while: then the request goes out on another one.
  void broke(Failed error) {
    if (!used_ || silent_) return fail(silent_ ? "nothing came for too long" : error.message());
    used_ = false;
    close();
    connect();
  }

  void came(std::string_view event) {
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
    const double since = std::chrono::duration<double>(now - (pieces_ ? last_ : sent_)).count();
    (pieces_ ? job_.traffic.gaps : job_.traffic.first).push_back(since);
    last_ = now;
    ++pieces_;
    ++job_.traffic.pieces;
  }

  void whole() {
    ClientTraffic& traffic = job_.traffic;
    traffic.seconds = seconds_since(job_.start);
    if (answer_->status() == 200 && done_) {
      ++traffic.answered;
      traffic.whole.push_back(seconds_since(sent_));
      if (!counted_) job_.counted = false;
    } else {
      const bool refused = answer_->status() == 429 || answer_->status() == 503;
      ++(refused ? traffic.refused : traffic.failed);
      job_.note(answer_->status() == 200 ? std::string("the stream ended without [DONE]")
                                         : fmt::format("{}: {}", answer_->status(), answer_->body().substr(0, 500)));
    }
    if (!answer_->keeps_alive()) close();
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
  std::optional<AnswerStream> answer_;
  Clock::time_point sent_, last_, alive_;
  uint64_t pieces_ = 0;
  bool counted_ = false, done_ = false, busy_ = false, silent_ = false;
  bool used_ = false;  // the connection had another request, and no byte of this answer has come
};

}  // namespace

Place place_of(const std::string& url) {
  const auto wrong = [&](const char* why) {
    return Error("URL: expected a text such as http://127.0.0.1:8080, found {}{}", in_quotes(url), why);
  };
  std::string_view rest = url;
  if (rest.starts_with("https://")) throw wrong(" (TLS is not spoken here)");
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  const size_t slash = std::min(rest.find('/'), rest.size());
  Place place{.host = std::string(rest.substr(0, slash)), .port = "80", .base = std::string(rest.substr(slash))};
  while (place.base.ends_with('/')) place.base.pop_back();
  if (place.base.empty()) place.base = "/v1";
  const size_t colon = place.host.rfind(':');
  const size_t bracket = place.host.rfind(']');
  if (colon != place.host.npos && (bracket == place.host.npos || bracket < colon)) {
    place.port = place.host.substr(colon + 1);
    place.host.resize(colon);
  }
  if (place.host.starts_with('[') && place.host.ends_with(']'))
    place.host = place.host.substr(1, place.host.size() - 2);
  const bool number = !place.port.empty() && place.port.find_first_not_of("0123456789") == place.port.npos;
  if (place.host.empty() || !number || url.find_first_of(" \r\n\t?#") != url.npos) throw wrong("");
  return place;
}

ClientTraffic run_clients(const Place& place, const std::string& api_key, const std::vector<std::string>& bodies,
                          uint32_t clients, double timeout) {
  asio::io_context io(1);
  Job job{.place = place, .api_key = api_key, .bodies = bodies};
  Failed error;
  job.addresses = tcp::resolver(io).resolve(place.host, place.port, error);
  if (error) throw Error("{}:{}: {}", place.host, place.port, error.message());
  std::vector<std::unique_ptr<Visitor>> visitors;
  for (size_t i = 0; i < std::min<size_t>(clients, bodies.size()); ++i)
    visitors.push_back(std::make_unique<Visitor>(io, job));
  job.start = Clock::now();
  for (const auto& visitor : visitors) visitor->next();

  asio::steady_timer timer(io);
  ProgressLine progress(&std::cerr);
  const std::function<void()> look = [&] {
    bool all = true;
    for (const auto& visitor : visitors) {
      visitor->cut_if_silent(timeout);
      all = all && visitor->done();
    }
    progress.count("answered", job.traffic.answered + job.traffic.refused + job.traffic.failed, bodies.size(),
                   "requests");
    if (all) return;
    timer.expires_after(std::chrono::milliseconds(100));
    timer.async_wait([&](Failed) { look(); });
  };
  look();
  io.run();
  if (!job.counted) job.traffic.generated = job.traffic.pieces;
  return std::move(job.traffic);
}

}  // namespace heddle

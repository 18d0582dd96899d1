// Many clients on one thread, over real sockets: each sends a request, reads the whole response or disconnects halfway,
// and begins again.
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace heddle::test {

// A response, parsed as it arrives.
class IncomingResponse {
 public:
  void feed(std::string_view bytes) {
    pending_ += bytes;
    while (step()) {
    }
  }
  bool whole() const { return state_ == State::whole; }
  unsigned status() const { return status_; }
  const std::string& body() const { return body_; }

 private:
  enum class State { head, size, chunk, line_end, rest, whole };

  bool step() {
    switch (state_) {
      case State::head: {
        const auto head = line("\r\n\r\n");
        if (!head) return false;
        status_ = unsigned(std::atoi(head->c_str() + 9));
        if (status_ == 100) return true;
        const size_t length = head->find("Content-Length: ");
        left_ = length == head->npos ? 0 : std::strtoul(head->c_str() + length + 16, nullptr, 10);
        state_ = length == head->npos ? State::size : State::rest;
        return true;
      }
      case State::size: {
        const auto size = line("\r\n");
        if (!size) return false;
        left_ = std::strtoul(size->c_str(), nullptr, 16);
        last_ = left_ == 0;
        state_ = last_ ? State::line_end : State::chunk;
        return true;
      }
      case State::line_end:
        if (!line("\r\n")) return false;
        state_ = last_ ? State::whole : State::size;
        return true;
      case State::chunk:
      case State::rest: {
        const size_t count = std::min(left_, pending_.size());
        body_.append(pending_, 0, count);
        pending_.erase(0, count);
        left_ -= count;
        if (left_ > 0) return false;
        state_ = state_ == State::chunk ? State::line_end : State::whole;
        return true;
      }
      case State::whole:
        return false;
    }
    return false;
  }
  std::optional<std::string> line(std::string_view end) {
    const size_t at = pending_.find(end);
    if (at == pending_.npos) return std::nullopt;
    std::string text = pending_.substr(0, at);
    pending_.erase(0, at + end.size());
    return text;
  }

  State state_ = State::head;
  unsigned status_ = 0;
  size_t left_ = 0;
  bool last_ = false;
  std::string pending_, body_;
};

class StreamClients {
 public:
  struct Plan {
    uint16_t port = 0;
    size_t clients = 1;
    double seconds = 1;                 // for which new requests are sent
    std::vector<std::string> requests;  // as bytes
    uint32_t cut_every = 0;             // one in this many requests is cut off by the client; 0: none
    std::function<void(size_t which, const IncomingResponse&)> on_response;
    std::function<void(double seconds)> on_second;  // about every second
  };
  struct Result {
    size_t whole = 0, cut = 0, broken = 0;  // broken: by the server
    double seconds = 0;
  };

  explicit StreamClients(Plan plan) : plan_(std::move(plan)), poll_(::epoll_create1(EPOLL_CLOEXEC)) {
    check(poll_ >= 0, "epoll");
  }
  ~StreamClients() {
    for (One& one : all_) close_socket(one, false);
    ::close(poll_);
  }

  Result run() {
    all_.resize(plan_.clients);
    for (One& one : all_) begin(one);
    double last = 0;
    std::vector<epoll_event> events(256);
    while (busy_ > 0 && now() < plan_.seconds + 60) {
      const int count = ::epoll_wait(poll_, events.data(), int(events.size()), 100);
      for (int i = 0; i < count; ++i) on_events(all_[size_t(events[size_t(i)].data.u64)], events[size_t(i)].events);
      if (plan_.on_second && now() - last >= 1) {
        last = now();
        plan_.on_second(last);
      }
    }
    result_.seconds = now();
    result_.broken += busy_;
    return result_;
  }

 private:
  struct One {
    int socket = -1;
    size_t which = 0, sent = 0;
    std::optional<size_t> cut_after;  // bytes of the body
    IncomingResponse response;
  };

  double now() const { return seconds_since(start_); }

  void begin(One& one) {
    if (now() >= plan_.seconds) return close_socket(one, false);
    if (one.socket < 0) connect(one);
    ++busy_;
    one.which = random_() % plan_.requests.size();
    one.sent = 0;
    one.response = {};
    one.cut_after.reset();
    if (plan_.cut_every && ++begun_ % plan_.cut_every == 0) one.cut_after = random_() % 3000;
    send(one);
  }
  void connect(One& one) {
    one.socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    check(one.socket >= 0, "a socket");
    const int on = 1;
    ::setsockopt(one.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(plan_.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)!::connect(one.socket, reinterpret_cast<sockaddr*>(&address), sizeof address);
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.u64 = uint64_t(&one - all_.data())}};
    check(::epoll_ctl(poll_, EPOLL_CTL_ADD, one.socket, &event) == 0, "epoll");
  }
  void close_socket(One& one, bool with_reset) {
    if (one.socket < 0) return;
    const linger now{1, 0};
    if (with_reset) ::setsockopt(one.socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(one.socket);
    one.socket = -1;
  }

  void send(One& one) {
    const std::string& request = plan_.requests[one.which];
    while (one.sent < request.size()) {
      const ssize_t count = ::send(one.socket, request.data() + one.sent, request.size() - one.sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      one.sent += size_t(count);
    }
  }
  void on_events(One& one, uint32_t what) {
    if (one.socket < 0) return;
    if (what & EPOLLOUT) send(one);
    char bytes[65536];
    for (;;) {
      const ssize_t count = ::recv(one.socket, bytes, sizeof bytes, 0);
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        ++result_.broken;
        return restart(one, true);
      }
      one.response.feed({bytes, size_t(count)});
      if (one.cut_after && one.response.body().size() >= *one.cut_after) {
        ++result_.cut;
        return restart(one, true);
      }
      if (!one.response.whole()) continue;
      ++result_.whole;
      if (plan_.on_response) plan_.on_response(one.which, one.response);
      return restart(one, false);
    }
  }
  void restart(One& one, bool cut) {
    --busy_;
    if (cut) close_socket(one, random_() % 2);
    begin(one);
  }

  const Plan plan_;
  const int poll_;
  const Clock::time_point start_ = Clock::now();
  std::mt19937 random_{1};
  std::vector<One> all_;
  size_t busy_ = 0, begun_ = 0;
  Result result_;
};

}  // namespace heddle::test

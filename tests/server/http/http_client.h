// A client that sends bytes as they are, valid HTTP or not.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace heddle::server {

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    EXPECT_GE(socket_, 0);
    if (receive_buffer) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(); }
  Client(Client&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_), rest_(std::move(other.rest_)) {}

  bool connected() const { return connected_; }

  // False: the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(size_t(count));
    }
    return true;
  }
  void half_close() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void reset() {  // closes it with a reset instead of an end of input
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

  // What arrives up to and including `end`, or all that arrived before the connection or the time ended.
  std::string until(std::string_view end, double seconds = 10) {
    const auto start = Clock::now();
    for (;;) {
      const size_t at = rest_.find(end);
      if (at != rest_.npos) return take(at + end.size());
      if (!receive(seconds - seconds_since(start))) return take(rest_.size());
    }
  }
  std::string exactly(size_t bytes, double seconds = 10) {
    const auto start = Clock::now();
    while (rest_.size() < bytes && receive(seconds - seconds_since(start))) {
    }
    return take(std::min(bytes, rest_.size()));
  }
  // All until the connection ends.
  std::string all(double seconds = 10) {
    const auto start = Clock::now();
    while (receive(seconds - seconds_since(start))) {
    }
    return take(rest_.size());
  }
  bool at_end(double seconds = 10) { return all(seconds).empty() && ended_; }
  bool ended() const { return ended_; }

 private:
  bool receive(double seconds) {
    pollfd state{.fd = socket_, .events = POLLIN};
    if (ended_ || seconds <= 0 || ::poll(&state, 1, int(seconds * 1000) + 1) != 1) return false;
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) {
      ended_ = true;
      return false;
    }
    rest_.append(bytes, size_t(count));
    return true;
  }
  std::string take(size_t bytes) {
    std::string taken = rest_.substr(0, bytes);
    rest_.erase(0, bytes);
    return taken;
  }

  int socket_;
  bool connected_ = false, ended_ = false;
  std::string rest_;
};

// A response as it was received.
struct Response {
  std::string head;  // with its empty line
  std::string body;  // without the framing of chunks
  unsigned status() const { return head.size() > 12 ? unsigned(std::atoi(head.c_str() + 9)) : 0; }
  bool says(std::string_view text) const { return head.find(text) != head.npos; }
};

inline std::string chunked_body(Client& client) {
  std::string body;
  for (;;) {
    const std::string line = client.until("\r\n");
    if (line.empty()) {
      ADD_FAILURE() << "the chunks do not end; so far " << body.substr(0, 200);
      return body;
    }
    const size_t size = std::strtoul(line.c_str(), nullptr, 16);
    body += client.exactly(size);
    client.exactly(2);
    if (size == 0) return body;
  }
}

inline Response response(Client& client, bool head_only = false) {
  Response response{.head = client.until("\r\n\r\n")};
  const size_t length = response.head.find("Content-Length: ");
  if (head_only) return response;
  if (length != response.head.npos)
    response.body = client.exactly(std::strtoul(response.head.c_str() + length + 16, nullptr, 10));
  else if (response.says("Transfer-Encoding: chunked"))
    response.body = chunked_body(client);
  else
    response.body = client.all();
  return response;
}

// Waits until the condition holds.
template <class Condition>
bool soon(Condition condition, double seconds = 10) {
  for (const auto start = Clock::now(); seconds_since(start) < seconds;
       std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (condition()) return true;
  return condition();
}

}  // namespace heddle::server

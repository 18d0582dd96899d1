// The throughput of the network side alone, client included, with responses that are ready.
#include <sys/epoll.h>

#include "tests/server/http/http_fixture.h"

namespace heddle::server {
namespace {

// Many connections on one thread. `received` is called with the bytes of each.
class Crowd {
 public:
  Crowd(uint16_t port, size_t count) : epoll_(::epoll_create1(0)) {
    for (size_t i = 0; i < count; ++i) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
      const int on = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
      sockets_.push_back(socket);
    }
  }
  ~Crowd() {
    for (const int socket : sockets_) ::close(socket);
    ::close(epoll_);
  }
  void send(size_t i, std::string_view bytes) { ::send(sockets_[i], bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  template <class Received>
  void wait(Received received) {
    epoll_event events[64];
    char bytes[65536];
    const int count = ::epoll_wait(epoll_, events, 64, 1000);
    ASSERT_GT(count, 0) << "nothing came for a second";
    for (int i = 0; i < count; ++i) {
      const ssize_t size = ::recv(sockets_[events[i].data.u64], bytes, sizeof bytes, 0);
      ASSERT_GT(size, 0) << "a connection ended";
      received(events[i].data.u64, std::string_view(bytes, size_t(size)));
    }
  }

 private:
  int epoll_;
  std::vector<int> sockets_;
};

class HttpSpeedTest : public HttpTest {};

TEST_F(HttpSpeedTest, SlowRequestsPerSecond) {
  open();
  constexpr size_t connections = 64, requests = 40'000;
  const std::string request = post("/hello", std::string(200, 'x'), "Authorization: Bearer key\r\nAccept: */*\r\n");
  Client one = client();
  one.send(request);
  const size_t length = response(one).head.size() + 5;
  Crowd crowd(server_->port(), connections);
  std::vector<size_t> bytes(connections);
  const auto start = Clock::now();
  for (size_t i = 0; i < connections; ++i) crowd.send(i, request);
  for (size_t done = 0; done < requests;)
    ASSERT_NO_FATAL_FAILURE(crowd.wait([&](size_t i, std::string_view text) {
      bytes[i] += text.size();
      if (bytes[i] < length) return;
      bytes[i] = 0;
      ++done;
      crowd.send(i, request);
    }));
  const double rate = double(requests) / seconds_since(start);
  std::printf("%zu connections: %.0f requests per second\n", connections, rate);
  EXPECT_GT(rate, 4000);
}

// Every stream gets a chunk of its own in each round, as it does from an engine.
TEST_F(HttpSpeedTest, SlowChunksPerSecond) {
  open();
  constexpr size_t streams = 256, rounds = 1500;
  const std::string chunk = "data: " + std::string(180, 'x') + "\n\n";
  const size_t framed = chunk.size() + 6;  // "bc\r\n" and "\r\n"
  Crowd crowd(server_->port(), streams);
  std::vector<std::shared_ptr<Responder>> responders;
  for (size_t i = 0; i < streams; ++i) {
    crowd.send(i, get("/hold"));
    responders.push_back(held());
    responders.back()->start({.type = "text/event-stream"});
  }
  for (size_t i = 0; i < streams;)
    ASSERT_NO_FATAL_FAILURE(crowd.wait([&](size_t, std::string_view text) {
      for (size_t at = 0; (at = text.find("\r\n\r\n", at)) != text.npos; at += 4) ++i;
    }));
  std::atomic<size_t> came = 0;
  const auto start = Clock::now();
  std::thread writer([&] {
    for (size_t round = 0; round < rounds; ++round) {
      while (came + 4 * streams < round * streams) std::this_thread::yield();
      for (const auto& responder : responders) responder->write(chunk);
    }
  });
  size_t bytes = 0;
  while (bytes < rounds * streams * framed && !HasFatalFailure())
    crowd.wait([&](size_t, std::string_view text) {
      bytes += text.size();
      came = bytes / framed;
    });
  const double rate = double(rounds * streams) / seconds_since(start);
  if (HasFatalFailure()) came = SIZE_MAX / 2;
  writer.join();
  std::printf("%zu streams: %.0f chunks per second\n", streams, rate);
  EXPECT_EQ(bytes, rounds * streams * framed);
  EXPECT_GT(rate, 40'000);
}

}  // namespace
}  // namespace heddle::server

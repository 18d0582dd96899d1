// Requests and responses over sockets: many on one connection, in order; several connections at once; and the
// throughput of the network side alone, with responses that are ready.
#include <sys/epoll.h>
#include <sys/resource.h>

#include "server/http/http.h"
#include "tests/server/http/http_fixture.h"
#include "tests/support/refused.h"
#include "tests/support/sanitized.h"

namespace heddle::server {
namespace {

class HttpServerTest : public HttpTest {};

TEST_F(HttpServerTest, RespondsToSeveralRequestsOnOneConnection) {
  open();
  EXPECT_EQ(server_->address(), "http://127.0.0.1:" + std::to_string(server_->port()));
  Client c = client();
  for (int i = 0; i < 3; ++i) {
    c.send(get("/hello"));
    const Response r = response(c);
    EXPECT_EQ(r.status(), 200u);
    EXPECT_TRUE(r.head.starts_with("HTTP/1.1 200 OK\r\n"));
    EXPECT_TRUE(r.says("Content-Type: text/plain\r\n"));
    EXPECT_TRUE(r.says("Content-Length: 5\r\n"));
    EXPECT_TRUE(r.says(" GMT\r\n"));
    EXPECT_FALSE(r.says("Connection:"));
    EXPECT_EQ(r.body, "hello");
  }
  EXPECT_EQ(server_->connections(), 1u);
  c.send(post("/echo?a=b", "body", "X-One: 1\r\nX-Two: 2\r\n"));
  const Response r = response(c);
  EXPECT_TRUE(r.says("X-Seen: yes\r\n"));
  EXPECT_EQ(r.body, "POST /echo [a=b] x-one=1 x-two=2 body");
  c.send(get("/hello", "Connection: close\r\n"));
  EXPECT_TRUE(response(c).says("Connection: close\r\n"));
  EXPECT_TRUE(c.at_end());
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  open();
  Client c = client();
  c.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  Response r = response(c);
  EXPECT_TRUE(r.says("Connection: keep-alive\r\n"));
  EXPECT_EQ(r.body, "hello");
  c.send("GET /hello HTTP/1.0\r\n\r\n");
  r = response(c);
  EXPECT_TRUE(r.says("Connection: close\r\n"));
  EXPECT_EQ(r.body, "hello");
  EXPECT_TRUE(c.at_end());

  Client stream = client();
  stream.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto responder = held();
  responder->start({.type = "text/event-stream", .body = "a"});
  responder->write("b");
  responder->finish();
  r = response(stream);
  EXPECT_FALSE(r.says("chunked"));
  EXPECT_TRUE(r.says("Connection: close\r\n"));
  EXPECT_EQ(r.body, "ab");
  EXPECT_TRUE(stream.ended());
}

TEST_F(HttpServerTest, HeadIsGetWithoutTheBody) {
  open();
  Client c = client();
  c.send("HEAD /echo HTTP/1.1\r\nHost: h\r\n\r\n" + get("/hello"));
  const Response r = response(c, true);
  EXPECT_EQ(r.status(), 200u);
  EXPECT_TRUE(r.says("Content-Length: 14\r\n"));  // "HEAD /echo [] "
  EXPECT_EQ(response(c).body, "hello");
}

TEST_F(HttpServerTest, SomeStatusesHaveNoBody) {
  open();
  Client c = client();
  c.send(get("/hold") + get("/hello"));
  held()->send({.status = 204, .headers = {{"X", "y"}}});
  Response r = response(c, true);
  EXPECT_TRUE(r.head.starts_with("HTTP/1.1 204 No Content\r\n"));
  EXPECT_FALSE(r.says("Content-"));
  EXPECT_EQ(response(c).body, "hello");
}

TEST_F(HttpServerTest, RespondsToPipelinedRequestsInOrder) {
  open();
  Client c = client();
  std::string all = get("/hold") + post("/echo", "one") + get("/hold");
  for (int i = 0; i < 50; ++i) all += post("/echo", std::to_string(i));
  c.send(all);
  const auto first = held();
  EXPECT_EQ(handled_, 1);
  first->start({.type = "text/event-stream"});
  first->write("piece");
  EXPECT_EQ(c.until("piece\r\n").substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(handled_, 1);  // the next one waits
  first->write(" and ");
  first->write("");  // has no effect: an empty chunk would end the body
  first->write("another");
  first->finish();
  EXPECT_EQ(chunked_body(c), " and another");
  EXPECT_EQ(response(c).body, "POST /echo [] one");
  held()->send({.body = "two"});
  EXPECT_EQ(response(c).body, "two");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(response(c).body, "POST /echo [] " + std::to_string(i));
}

TEST_F(HttpServerTest, MoreThanItBuffersMayBePipelined) {
  open();
  Client c = client();
  const std::string body(100'000, 'b');
  std::thread sender([&] {
    c.send(get("/hold"));
    for (int i = 0; i < 20; ++i) c.send(post("/echo", body));
  });
  const auto first = held();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(handled_, 1);
  first->send({.body = "first"});
  EXPECT_EQ(response(c).body, "first");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(response(c).body, "POST /echo [] " + body);
  sender.join();
}

TEST_F(HttpServerTest, BytesMayArriveOneByOne) {
  open();
  Client c = client();
  for (const char byte : post("/echo", "slowly") + get("/hello")) c.send({&byte, 1});
  EXPECT_EQ(response(c).body, "POST /echo [] slowly");
  EXPECT_EQ(response(c).body, "hello");
}

TEST_F(HttpServerTest, LargeBodiesBothWays) {
  open();
  Client c = client();
  const std::string large(10 << 20, 'x');
  std::thread sender([&] { c.send(post("/echo", large)); });
  const Response r = response(c);
  sender.join();
  EXPECT_EQ(r.body.size(), large.size() + 14);
  EXPECT_TRUE(r.body.ends_with(large));
}

TEST_F(HttpServerTest, ChunkedBodies) {
  open();
  Client c = client();
  c.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  c.send("1\r\n \r\n0\r\nX-Late: 1\r\n\r\n" + get("/hello"));
  EXPECT_EQ(response(c).body, "POST /echo [] hello ");
  EXPECT_EQ(response(c).body, "hello");
}

TEST_F(HttpServerTest, ExpectContinue) {
  open();
  Client c = client();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
  c.send(head);
  EXPECT_EQ(c.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.send("body");
  EXPECT_EQ(response(c).body, "POST /echo [] body");
  c.send(head + "here");  // it did not wait, so there is no 100 Continue
  EXPECT_EQ(response(c).body, "POST /echo [] here");
  c.send("POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(response(c).status(), 413u);
}

TEST_F(HttpServerTest, RespondsForAHandlerThatThrows) {
  open();
  Client c = client();
  c.send(get("/throw") + get("/hello"));
  const Response r = response(c);
  EXPECT_EQ(r.status(), 500u);
  EXPECT_NE(r.body.find("\"error\":{\"message\":\"a fault of the server: a bug in a test\""), r.body.npos) << r.body;
  EXPECT_EQ(response(c).body, "hello");
}

TEST_F(HttpServerTest, ADroppedResponderClosesTheConnection) {
  open();
  Client c = client();
  c.send(get("/drop"));
  EXPECT_TRUE(c.at_end());
  Client stream = client();
  stream.send(get("/hold"));
  held()->start({.body = "begun"});
  const std::string all = stream.all();
  EXPECT_TRUE(stream.ended());
  EXPECT_FALSE(all.ends_with("0\r\n\r\n")) << all;
}

TEST_F(HttpServerTest, RespondsOnce) {
  open();
  Client c = client();
  c.send(get("/hold"));
  auto responder = held();
  EXPECT_THROW(responder->write("before"), std::logic_error);
  EXPECT_THROW(responder->finish(), std::logic_error);
  EXPECT_THROW(responder->send({.headers = {{"X", "a\r\nY: b"}}}), std::logic_error);
  responder->start({});
  EXPECT_THROW(responder->send({}), std::logic_error);
  responder->finish();
  EXPECT_EQ(response(c).status(), 200u);
}

TEST_F(HttpServerTest, RespondersMayOutliveTheServer) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const auto responder = held();
  int gone = 0;
  responder->on_disconnect([&] { ++gone; });
  responder->start({});
  server_.reset();
  EXPECT_EQ(gone, 1);
  responder->write("too late");
  responder->finish();
  responder->on_disconnect([&] { ++gone; });
  EXPECT_EQ(gone, 2);  // another callback, and the client disconnected before the end
}

// A callback may hold its own responder: the cycle is broken when the connection is closed.
TEST_F(HttpServerTest, FreesUnansweredRequestsWhenItIsDestroyed) {
  open();
  Client first = client(), second = client();
  first.send(get("/hold"));
  second.send(get("/hold"));
  std::vector<std::weak_ptr<Responder>> unanswered;
  for (int i = 0; i < 2; ++i) {
    auto responder = held();
    unanswered.push_back(responder);
    responder->on_disconnect([responder] {});
  }
  second.half_close();
  EXPECT_EQ(second.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");  // probes whether the client still reads
  server_.reset();
  for (const auto& responder : unanswered) EXPECT_TRUE(responder.expired());
}

TEST_F(HttpServerTest, CallsTheHandlerForSeveralConnectionsAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable entered;
  int inside = 0;
  HttpServer server({.port = 0, .threads = 2}, [&](HttpRequest, const std::shared_ptr<Responder>& responder) {
    std::unique_lock lock(mutex);
    ++inside;
    entered.notify_all();
    const bool both = entered.wait_for(lock, std::chrono::seconds(10), [&] { return inside == 2; });
    responder->send({.body = both ? "both" : "alone"});
  });
  Client first(server.port()), second(server.port());
  first.send(get("/"));
  second.send(get("/"));
  EXPECT_EQ(response(first).body, "both");
  EXPECT_EQ(response(second).body, "both");
}

TEST_F(HttpServerTest, StopsAcceptingAndClosesWhatIsOpen) {
  open();
  Client idle = client(), fresh = client(), busy = client(), half = client();
  idle.send(get("/hello"));
  EXPECT_EQ(response(idle).body, "hello");
  busy.send(get("/hold"));
  half.send("GET /hello HTTP/1.1\r\n");
  const auto responder = held();
  EXPECT_TRUE(soon([&] { return server_->connections() == 4; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server_->stop_accepting();
  EXPECT_FALSE(client().connected());
  EXPECT_TRUE(idle.at_end());
  EXPECT_TRUE(fresh.at_end());
  half.send("Host: h\r\n\r\n");
  EXPECT_TRUE(response(half).says("Connection: close"));
  EXPECT_TRUE(half.at_end());
  responder->send({.body = "still"});
  const Response r = response(busy);
  EXPECT_EQ(r.body, "still");
  EXPECT_TRUE(r.says("Connection: close\r\n"));
  EXPECT_TRUE(busy.at_end());
  server_->stop_accepting();  // again
}

// A request on a connection that was idle is still answered: it may have been under way.
TEST_F(HttpServerTest, RetiresAfterTheNextResponse) {
  open();
  Client idle = client();
  idle.send(get("/hello"));
  EXPECT_EQ(response(idle).body, "hello");
  server_->retire();
  idle.send(get("/hello"));
  const Response last = response(idle);
  EXPECT_EQ(last.body, "hello");
  EXPECT_TRUE(last.says("Connection: close"));
  EXPECT_TRUE(idle.at_end());
}

// New connections are answered, so that their clients learn why they have to go elsewhere.
TEST_F(HttpServerTest, DrainsAndStillResponds) {
  open();
  Client idle = client(), busy = client();
  idle.send(get("/hello"));
  EXPECT_EQ(response(idle).body, "hello");
  busy.send(get("/hold"));
  const auto responder = held();
  server_->drain();
  EXPECT_TRUE(idle.at_end());
  for (int i = 0; i < 3; ++i) {
    Client late = client();
    ASSERT_TRUE(late.connected());
    late.send(get("/hello"));
    const Response r = response(late);
    EXPECT_EQ(r.body, "hello");
    EXPECT_TRUE(r.says("Connection: close"));
    EXPECT_TRUE(late.at_end());
  }
  responder->send({.body = "still"});
  EXPECT_EQ(response(busy).body, "still");
  server_->stop_accepting();
  EXPECT_FALSE(client().connected());
}

TEST_F(HttpServerTest, ListensOnIpv6) {
  HttpOptions options;
  options.host = "::1";
  try {
    open(options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(server_->address(), "http://[::1]:" + std::to_string(server_->port()));
  const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(server_->port());
  address.sin6_addr = in6addr_loopback;
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(soon([&] { return server_->connections() == 1; }));
  ::close(socket);
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  open();
  const auto handler = [](HttpRequest, std::shared_ptr<Responder>) {};
  HttpOptions options;
  options.port = server_->port();
  EXPECT_REFUSED(HttpServer(options, handler), "127.0.0.1 port " + std::to_string(options.port), "in use");
  options.host = "no such host";
  EXPECT_REFUSED(HttpServer(options, handler), "no such host", "expected an address");
  options.host = "192.0.2.1";
  EXPECT_REFUSED(HttpServer(options, handler), "192.0.2.1");
}

// With no descriptor left a connection is refused, and not left waiting.
TEST_F(HttpServerTest, SurvivesAProcessWithoutDescriptors) {
  if (test::sanitized) GTEST_SKIP() << "the sanitizers need descriptors themselves";
  std::atomic<int> refused = 0;
  open({.on_no_descriptor = [&] { ++refused; }});
  Client first = client(), second = client(), third = client();
  EXPECT_TRUE(soon([&] { return server_->connections() == 3; }));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Client waits = client();  // has its own socket and the server's
  EXPECT_TRUE(soon([&] { return server_->connections() == 4; }));
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  rlimit none = before;
  none.rlim_cur = rlim_t(socket) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  std::string found;
  for (char bytes[1000];;) {
    const ssize_t count = ::recv(socket, bytes, sizeof bytes, 0);
    if (count <= 0) break;
    found.append(bytes, size_t(count));
  }
  EXPECT_TRUE(found.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << found;
  EXPECT_NE(found.find("Retry-After: 1\r\n"), found.npos);
  EXPECT_NE(found.find("no descriptors left"), found.npos);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(server_->connections(), 4u);
  first.send(get("/hello"));  // other connections are not affected
  EXPECT_EQ(response(first).body, "hello");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ::close(socket);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until it accepts again
  Client later = client();
  later.send(get("/hello"));
  EXPECT_EQ(response(later).body, "hello");
}

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

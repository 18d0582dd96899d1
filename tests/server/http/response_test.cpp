// Streamed responses, and clients that disconnect, stop sending or do not read meanwhile.
#include <random>

#include "tests/server/http/http_fixture.h"
#include "tests/support/sanitized.h"

namespace heddle::server {
namespace {

class HttpStreamTest : public HttpTest {
 protected:
  // A request to /hold: its responder, and how often on_disconnect was called.
  struct Held {
    std::shared_ptr<Responder> responder;
    std::shared_ptr<std::atomic<int>> gone = std::make_shared<std::atomic<int>>(0);
  };
  Held hold() {
    Held one{.responder = held()};
    one.responder->on_disconnect([gone = one.gone] { ++*gone; });
    return one;
  }
  // Sends the request and begins the response with an "x".
  Held begun(Client& client, const std::string& request = get("/hold")) {
    client.send(request);
    Held one = hold();
    one.responder->start({.body = "x"});
    client.until("x\r\n");
    return one;
  }
  // The time within which a disconnected client must be noticed; more under the sanitizers.
  static double at_once() { return test::sanitized ? 1 : 0.05; }
  static bool gone_at_once(const Held& one) {
    return soon([&] { return *one.gone > 0; }, at_once());
  }
};

TEST_F(HttpStreamTest, ChunksAreSentAtOnce) {
  open();
  Client c = client();
  c.send(post("/hold", "{}"));
  const Held one = hold();
  one.responder->start(
      {.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}, .body = "data: 0\n\n"});
  const std::string head = c.until("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), head.npos);
  EXPECT_NE(head.find("Cache-Control: no-cache\r\n"), head.npos);
  EXPECT_EQ(head.find("Content-Length"), head.npos);
  EXPECT_EQ(c.until("\n\n\r\n"), "9\r\ndata: 0\n\n\r\n");
  for (int i = 1; i < 20; ++i) {
    const std::string piece = "data: " + std::to_string(i) + "\n\n";
    one.responder->write(piece);
    EXPECT_EQ(c.until("\n\n\r\n"), (i < 10 ? "9\r\n" : "a\r\n") + piece + "\r\n");
  }
  one.responder->finish();
  EXPECT_EQ(c.until("\r\n\r\n"), "0\r\n\r\n");
  c.send(get("/hello"));
  EXPECT_EQ(response(c).body, "hello");
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, ChunksKeepTheirOrderFromAnyThread) {
  open({.threads = 3});
  Client c = client();
  for (int round = 0; round < 3; ++round) {
    c.send(get("/hold"));
    const Held one = hold();
    std::string expected;
    std::thread writer([&] {
      std::mt19937 random(round);
      one.responder->start({});
      for (int i = 0; i < 20'000; ++i) {
        std::string piece = std::to_string(i) + std::string(random() % 50, '.');
        expected += piece;
        one.responder->write(std::move(piece));
      }
      one.responder->finish();
    });
    const Response r = response(c);
    writer.join();
    EXPECT_EQ(r.body, expected);
  }
}

TEST_F(HttpStreamTest, NoticesAReset) {
  open();
  Client c = client();
  const Held one = begun(c);
  c.reset();
  EXPECT_TRUE(gone_at_once(one));
  for (int i = 0; i < 10; ++i) one.responder->write("too late");
  one.responder->finish();
  EXPECT_EQ(*one.gone, 1);
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpStreamTest, NoticesAClosedClientBeforeTheResponse) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const Held one = hold();
  c.close();
  EXPECT_TRUE(gone_at_once(one));
  one.responder->send({.body = "too late"});
  EXPECT_EQ(*one.gone, 1);
}

TEST_F(HttpStreamTest, NoticesAClosedClientBetweenTwoChunks) {
  open();
  Client c = client();
  const Held one = begun(c);
  c.close();
  EXPECT_TRUE(gone_at_once(one));
  EXPECT_EQ(*one.gone, 1);
}

TEST_F(HttpStreamTest, NoticesAClosedClientWithPipelinedRequests) {
  open();
  for (const size_t ahead : {size_t(1), size_t(10'000)}) {  // the second is more than is read ahead
    Client c = client();
    std::string all = get("/hold");
    for (size_t i = 0; i < ahead; ++i) all += get("/hello");
    const Held one = begun(c, all);
    ahead > 1 ? c.reset() : c.close();
    EXPECT_TRUE(gone_at_once(one)) << ahead;
    EXPECT_EQ(*one.gone, 1);
  }
}

TEST_F(HttpStreamTest, RespondsToAHalfClosedClient) {
  open();
  Client c = client();
  c.send(get("/hold"));
  c.half_close();
  const Held one = hold();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(*one.gone, 0);
  one.responder->send({.body = "still"});
  EXPECT_EQ(c.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");  // the probe
  EXPECT_EQ(response(c).body, "still");
  EXPECT_TRUE(c.at_end());
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, StreamsToAHalfClosedClient) {
  open();
  Client c = client();
  c.send(get("/hold") + get("/hello"));
  const Held one = hold();
  one.responder->start({.body = "one"});
  c.until("\r\n\r\n");
  EXPECT_EQ(c.until("one\r\n"), "3\r\none\r\n");
  c.half_close();
  EXPECT_EQ(c.exactly(1), "0");  // the size of the next chunk begins
  one.responder->write("two and more");
  EXPECT_EQ(c.until("more\r\n"), "c\r\ntwo and more\r\n");
  one.responder->finish();
  EXPECT_EQ(c.until("\r\n\r\n"), "0\r\n\r\n");
  EXPECT_EQ(response(c).body, "hello");  // it was sent before
  EXPECT_TRUE(c.at_end());
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, NoticesWhenAHalfClosedClientCloses) {
  open();
  Client c = client();
  c.send(get("/hold"));
  c.half_close();
  const Held one = hold();
  c.until("Continue\r\n\r\n");
  c.close();
  Client old = client();  // HTTP/1.0 has no probe
  old.send("GET /hold HTTP/1.0\r\n\r\n");
  const Held two = hold();
  old.close();
  for (const Held& each : {one, two}) {
    each.responder->start({.body = "x"});
    EXPECT_TRUE(soon([&] {
      each.responder->write("x");
      return *each.gone > 0;
    }));
    EXPECT_EQ(*each.gone, 1);
  }
}

TEST_F(HttpStreamTest, CallsALateCallbackAtOnce) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const auto responder = held();
  c.reset();
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
  int gone = 0;
  responder->on_disconnect([&] { ++gone; });
  EXPECT_EQ(gone, 1);
}

TEST_F(HttpStreamTest, CallsNoCallbackAfterTheEnd) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const Held one = hold();
  one.responder->send({.body = "all"});
  EXPECT_EQ(response(c).body, "all");
  c.reset();
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
  one.responder->on_disconnect([&] { ++*one.gone; });
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, ClosesWhenTooMuchWaitsForASlowReader) {
  open({.max_unsent = 1 << 20});
  Client c = client(4096);
  c.send(get("/hold"));
  const Held one = hold();
  one.responder->start({});
  size_t written = 0;
  const std::string piece(10'000, 'x');
  for (; written < (size_t(64) << 20) && !*one.gone; written += piece.size()) {
    one.responder->write(piece);
    if (written % 1'000'000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(*one.gone, 1);
  EXPECT_LT(written, size_t(32) << 20);  // socket buffers and the limit
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpStreamTest, ClosesWhenAReaderMakesNoProgress) {
  open({.write_seconds = 0.2});
  Client c = client(4096);
  c.send(get("/hold"));
  const Held one = hold();
  const auto start = Clock::now();
  one.responder->start({.body = std::string(20 << 20, 'x')});  // one part may exceed the limit
  EXPECT_TRUE(soon([&] { return *one.gone > 0; }));
  EXPECT_GT(seconds_since(start), 0.15);
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpStreamTest, WaitsForASlowReaderThatMakesProgress) {
  open({.write_seconds = 1.5, .max_unsent = 1000});
  Client c = client(64 << 10);
  c.send(get("/hold"));
  const std::string body(12 << 20, 'y');  // more than socket buffers hold
  held()->send({.body = body});
  std::string came;
  const auto start = Clock::now();
  c.until("\r\n\r\n");
  while (came.size() < body.size() && !c.ended()) {
    came += c.exactly(std::min<size_t>(512 << 10, body.size() - came.size()));
    std::this_thread::sleep_for(std::chrono::milliseconds(80));
  }
  EXPECT_TRUE(came == body) << came.size();
  EXPECT_GT(seconds_since(start), 1.5);  // longer than the limit for one write
}

TEST_F(HttpStreamTest, AThousandOpenStreamsOnTwoThreads) {
  open();
  std::vector<Client> clients;
  std::vector<Held> streams;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(client());
    clients.back().send(get("/hold"));
    streams.push_back(hold());
    streams.back().responder->start({});
  }
  EXPECT_EQ(server_->connections(), 1000u);
  Client other = client();  // others are not slowed down
  const auto start = Clock::now();
  other.send(get("/hello"));
  EXPECT_EQ(response(other).body, "hello");
  EXPECT_LT(seconds_since(start), 1);
  for (int piece = 0; piece < 3; ++piece)
    for (Held& one : streams) one.responder->write(std::to_string(piece));
  for (size_t i = 0; i < clients.size(); i += 2) streams[i].responder->finish();
  for (size_t i = 1; i < clients.size(); i += 2) clients[i].close();
  for (size_t i = 0; i < clients.size(); i += 2) ASSERT_EQ(response(clients[i]).body, "012") << i;
  for (size_t i = 1; i < clients.size(); i += 2) ASSERT_TRUE(soon([&] { return *streams[i].gone == 1; })) << i;
  for (size_t i = 0; i < clients.size(); i += 2) ASSERT_EQ(*streams[i].gone, 0) << i;
  EXPECT_TRUE(soon([&] { return server_->connections() == 501; })) << server_->connections();
}

}  // namespace
}  // namespace heddle::server

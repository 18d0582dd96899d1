// Answers that come in pieces, and clients that go away, fall silent or do not read while they are made.
#include <random>

#include "tests/server/http/http_fixture.h"

namespace heddle::server {
namespace {

class HttpStreamTest : public HttpTest {
 protected:
  // A request to /hold with its answer, and how often its client was said to have gone.
  struct Held {
    std::shared_ptr<Answer> answer;
    std::shared_ptr<std::atomic<int>> gone = std::make_shared<std::atomic<int>>(0);
  };
  Held hold() {
    Held one{.answer = held()};
    one.answer->when_gone([gone = one.gone] { ++*gone; });
    return one;
  }
  // One that asks, and whose answer has begun: it got an "x".
  Held begun(Client& client, const std::string& request = get("/hold")) {
    client.send(request);
    Held one = hold();
    one.answer->start({.body = "x"});
    client.until("x\r\n");
    return one;
  }
  // Within the time in which a client that has gone has to be noticed; more where everything is slow.
#ifdef HEDDLE_SANITIZED
  static constexpr double at_once = 1;
#else
  static constexpr double at_once = 0.05;
#endif
  static bool gone_at_once(const Held& one) {
    return soon([&] { return *one.gone > 0; }, at_once);
  }
};

TEST_F(HttpStreamTest, PiecesGoOutAtOnce) {
  open();
  Client c = client();
  c.send(post("/hold", "{}"));
  const Held one = hold();
  one.answer->start({.type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}, .body = "data: 0\n\n"});
  const std::string head = c.until("\r\n\r\n");
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), head.npos);
  EXPECT_NE(head.find("Cache-Control: no-cache\r\n"), head.npos);
  EXPECT_EQ(head.find("Content-Length"), head.npos);
  EXPECT_EQ(c.until("\n\n\r\n"), "9\r\ndata: 0\n\n\r\n");
  for (int i = 1; i < 20; ++i) {
    const std::string piece = "data: " + std::to_string(i) + "\n\n";
    one.answer->write(piece);
    EXPECT_EQ(c.until("\n\n\r\n"), (i < 10 ? "9\r\n" : "a\r\n") + piece + "\r\n");
  }
  one.answer->finish();
  EXPECT_EQ(c.until("\r\n\r\n"), "0\r\n\r\n");
  c.send(get("/hello"));
  EXPECT_EQ(response(c).body, "hello");
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, PiecesKeepTheirOrderFromAnyThread) {
  open({.threads = 3});
  Client c = client();
  for (int round = 0; round < 3; ++round) {
    c.send(get("/hold"));
    const Held one = hold();
    std::string expected;
    std::thread writer([&] {
      std::mt19937 random(round);
      one.answer->start({});
      for (int i = 0; i < 20'000; ++i) {
        std::string piece = std::to_string(i) + std::string(random() % 50, '.');
        expected += piece;
        one.answer->write(std::move(piece));
      }
      one.answer->finish();
    });
    const Response r = response(c);
    writer.join();
    EXPECT_EQ(r.body, expected);
  }
}

TEST_F(HttpStreamTest, AClientThatBreaksOffIsNoticed) {
  open();
  Client c = client();
  const Held one = begun(c);
  c.reset();
  EXPECT_TRUE(gone_at_once(one));
  for (int i = 0; i < 10; ++i) one.answer->write("nobody");
  one.answer->finish();
  EXPECT_EQ(*one.gone, 1);
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpStreamTest, AClientThatClosesIsNoticedBeforeAnyAnswer) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const Held one = hold();
  c.close();
  EXPECT_TRUE(gone_at_once(one));
  one.answer->send({.body = "nobody"});
  EXPECT_EQ(*one.gone, 1);
}

TEST_F(HttpStreamTest, AClientThatClosesIsNoticedBetweenTwoPieces) {
  open();
  Client c = client();
  const Held one = begun(c);
  c.close();
  EXPECT_TRUE(gone_at_once(one));
  EXPECT_EQ(*one.gone, 1);
}

TEST_F(HttpStreamTest, AClientThatClosesWithRequestsLeftIsNoticed) {
  open();
  for (const size_t ahead : {size_t(1), size_t(10'000)}) {  // the second is more than is kept
    Client c = client();
    std::string all = get("/hold");
    for (size_t i = 0; i < ahead; ++i) all += get("/hello");
    const Held one = begun(c, all);
    ahead > 1 ? c.reset() : c.close();
    EXPECT_TRUE(gone_at_once(one)) << ahead;
    EXPECT_EQ(*one.gone, 1);
  }
}

TEST_F(HttpStreamTest, AClientThatOnlySendsNoMoreGetsItsAnswer) {
  open();
  Client c = client();
  c.send(get("/hold"));
  c.no_more();
  const Held one = hold();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(*one.gone, 0);
  one.answer->send({.body = "still"});
  EXPECT_EQ(c.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");  // what it is asked with whether it is there
  EXPECT_EQ(response(c).body, "still");
  EXPECT_TRUE(c.at_end());
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, AStreamGoesOnWhenTheClientSendsNoMore) {
  open();
  Client c = client();
  c.send(get("/hold") + get("/hello"));
  const Held one = hold();
  one.answer->start({.body = "one"});
  c.until("\r\n\r\n");
  EXPECT_EQ(c.until("one\r\n"), "3\r\none\r\n");
  c.no_more();
  EXPECT_EQ(c.exactly(1), "0");  // the size of the next chunk begins
  one.answer->write("two and more");
  EXPECT_EQ(c.until("more\r\n"), "c\r\ntwo and more\r\n");
  one.answer->finish();
  EXPECT_EQ(c.until("\r\n\r\n"), "0\r\n\r\n");
  EXPECT_EQ(response(c).body, "hello");  // it was sent before
  EXPECT_TRUE(c.at_end());
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, ClientsThatSendNoMoreAreNoticedWhenTheyClose) {
  open();
  Client c = client();
  c.send(get("/hold"));
  c.no_more();
  const Held one = hold();
  c.until("Continue\r\n\r\n");
  c.close();
  Client old = client();  // HTTP/1.0 has nothing to ask with
  old.send("GET /hold HTTP/1.0\r\n\r\n");
  const Held two = hold();
  old.close();
  for (const Held& each : {one, two}) {
    each.answer->start({.body = "anybody?"});
    EXPECT_TRUE(soon([&] {
      each.answer->write("anybody?");
      return *each.gone > 0;
    }));
    EXPECT_EQ(*each.gone, 1);
  }
}

TEST_F(HttpStreamTest, GoneIsToldAtOnceToWhoAsksLate) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const auto answer = held();
  c.reset();
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
  int gone = 0;
  answer->when_gone([&] { ++gone; });
  EXPECT_EQ(gone, 1);
}

TEST_F(HttpStreamTest, GoneIsNotToldAfterTheEnd) {
  open();
  Client c = client();
  c.send(get("/hold"));
  const Held one = hold();
  one.answer->send({.body = "all"});
  EXPECT_EQ(response(c).body, "all");
  c.reset();
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
  one.answer->when_gone([&] { ++*one.gone; });
  EXPECT_EQ(*one.gone, 0);
}

TEST_F(HttpStreamTest, AReaderThatDoesNotReadIsCutOffWhenTooMuchWaits) {
  open({.most_unsent = 1 << 20});
  Client c = client(4096);
  c.send(get("/hold"));
  const Held one = hold();
  one.answer->start({});
  size_t written = 0;
  const std::string piece(10'000, 'x');
  for (; written < (size_t(64) << 20) && !*one.gone; written += piece.size()) {
    one.answer->write(piece);
    if (written % 1'000'000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(*one.gone, 1);
  EXPECT_LT(written, size_t(32) << 20);  // what systems keep on the way, and the limit
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpStreamTest, AReaderThatDoesNotReadIsCutOffInTime) {
  open({.write_seconds = 0.2});
  Client c = client(4096);
  c.send(get("/hold"));
  const Held one = hold();
  const auto start = Clock::now();
  one.answer->start({.body = std::string(20 << 20, 'x')});  // a piece may be as large as it likes
  EXPECT_TRUE(soon([&] { return *one.gone > 0; }));
  EXPECT_GT(seconds_since(start), 0.15);
  EXPECT_TRUE(soon([&] { return server_->connections() == 0; }));
}

TEST_F(HttpStreamTest, AReaderThatTakesItsTimeGetsAll) {
  open({.write_seconds = 1.5, .most_unsent = 1000});
  Client c = client(64 << 10);
  c.send(get("/hold"));
  const std::string body(12 << 20, 'y');  // more than systems keep on the way
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
    streams.back().answer->start({});
  }
  EXPECT_EQ(server_->connections(), 1000u);
  Client other = client();  // others are served as if they were alone
  const auto start = Clock::now();
  other.send(get("/hello"));
  EXPECT_EQ(response(other).body, "hello");
  EXPECT_LT(seconds_since(start), 1);
  for (int piece = 0; piece < 3; ++piece)
    for (Held& one : streams) one.answer->write(std::to_string(piece));
  for (size_t i = 0; i < clients.size(); i += 2) streams[i].answer->finish();
  for (size_t i = 1; i < clients.size(); i += 2) clients[i].close();
  for (size_t i = 0; i < clients.size(); i += 2) ASSERT_EQ(response(clients[i]).body, "012") << i;
  for (size_t i = 1; i < clients.size(); i += 2) ASSERT_TRUE(soon([&] { return *streams[i].gone == 1; })) << i;
  for (size_t i = 0; i < clients.size(); i += 2) ASSERT_EQ(*streams[i].gone, 0) << i;
  EXPECT_TRUE(soon([&] { return server_->connections() == 501; })) << server_->connections();
}

}  // namespace
}  // namespace heddle::server

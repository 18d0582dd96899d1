// Limits and deadlines over sockets. The limits of framing are tested in request_reader_test.cpp.
#include "server/api/api_error.h"
#include "tests/server/http/http_fixture.h"

namespace heddle::server {
namespace {

class HttpLimitsTest : public HttpTest {
 protected:
  void expect_refused(const std::string& bytes, unsigned status) {
    Client c = client();
    c.send(bytes);
    const Response r = response(c);
    EXPECT_EQ(r.status(), status) << bytes.substr(0, 100);
    EXPECT_TRUE(r.says("Connection: close\r\n"));
    EXPECT_TRUE(r.says("Content-Type: application/json\r\n"));
    EXPECT_TRUE(r.body.starts_with("{\"error\":{\"message\":\"")) << r.body;
    EXPECT_NE(r.body.find("\"type\":\"invalid_request_error\",\"param\":null"), r.body.npos) << r.body;
    EXPECT_TRUE(c.at_end());
  }
};

TEST_F(HttpLimitsTest, RefusesAndCloses) {
  std::mutex mutex;
  std::vector<unsigned> refused;
  std::vector<std::string> paths;
  open({.max_body = 1000,
        .max_header = 2000,
        .refuse = [&](const HttpRequest& head, const std::shared_ptr<Responder>& responder, const ApiError& why) {
          const std::lock_guard lock(mutex);
          refused.push_back(why.status);
          paths.push_back(head.path);
          EXPECT_TRUE(head.peer.starts_with("127.0.0.1:")) << head.peer;
          responder->send(error_response(why));
        }});
  expect_refused("nonsense\r\n\r\n", 400);
  expect_refused("GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505);
  expect_refused(get("/", "Transfer-Encoding: br\r\n"), 501);
  expect_refused(get("/", "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"), 400);
  expect_refused(get("/", "X: " + std::string(3000, 'x') + "\r\n"), 431);
  expect_refused(post("/echo", std::string(1001, 'x')), 413);
  expect_refused(get("/", "Transfer-Encoding: chunked\r\n") + "3e9\r\n", 413);
  EXPECT_EQ(handled_, 0);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(refused, (std::vector<unsigned>{400, 505, 501, 400, 431, 413, 413}));
  EXPECT_EQ(paths[0], "");
  EXPECT_EQ(paths[5], "/echo");
}

TEST_F(HttpLimitsTest, RefusesBeforeTheBodyIsRead) {
  open({.admit = [](const HttpRequest& head) {
    if (head.path == "/echo" && !head.header("x-key")) throw ApiError(401, "invalid_api_key", "", "no key");
  }});
  expect_refused(post("/echo", "body").substr(0, post("/echo", "body").size() - 4), 401);
  EXPECT_EQ(handled_, 0);
}

TEST_F(HttpLimitsTest, LimitsAllBodiesTogether) {
  open({.max_bodies = 3000});
  const std::string whole = post("/echo", std::string(2000, 'x')), part = whole.substr(0, whole.size() - 1);
  Client first = client();
  first.send(part);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Client second = client();
  second.send(part);
  const Response refused = response(second);
  EXPECT_EQ(refused.status(), 503u);
  EXPECT_TRUE(refused.says("Retry-After: 1\r\n"));
  first.send("x");
  EXPECT_EQ(response(first).status(), 200u);
  Client third = client();  // refused and complete requests do not count
  third.send(whole);
  EXPECT_EQ(response(third).status(), 200u);
}

// The client gets the response although the rest of its body is not read.
TEST_F(HttpLimitsTest, RefusesALargeBodyWhileItIsSent) {
  open({.max_body = 1000});
  for (int i = 0; i < 20; ++i) {
    Client c = client();
    std::thread sender([&] { c.send(post("/echo", std::string(1 << 20, 'x'))); });
    EXPECT_EQ(response(c).status(), 413u);
    sender.join();
    EXPECT_TRUE(c.at_end());
  }
}

TEST_F(HttpLimitsTest, RespondsToWhatCameBeforeABadRequest) {
  open();
  Client c = client();
  c.send(get("/hello") + "nonsense\r\n\r\n");
  EXPECT_EQ(response(c).body, "hello");
  EXPECT_EQ(response(c).status(), 400u);
  EXPECT_TRUE(c.at_end());
}

TEST_F(HttpLimitsTest, RefusesAnIncompleteRequest) {
  open();
  for (const std::string& text : {std::string("GET / HT"), post("/echo", "body").substr(0, 50)}) {
    Client c = client();
    c.send(text);
    c.half_close();
    EXPECT_EQ(response(c).status(), 400u);
    EXPECT_TRUE(c.at_end());
  }
  Client nothing = client();
  nothing.half_close();
  EXPECT_TRUE(nothing.at_end());
}

TEST_F(HttpLimitsTest, RefusesLateHeadersAndBodies) {
  open({.header_seconds = 0.2, .body_seconds = 0.4, .idle_seconds = 5});
  Client header = client(), body = client(), trickle = client(), silent = client();
  auto start = Clock::now();
  header.send("GET / HTTP/1.1\r\n");
  body.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(response(header).status(), 408u);
  EXPECT_GT(seconds_since(start), 0.15);
  EXPECT_TRUE(header.at_end());
  EXPECT_TRUE(silent.at_end());  // without a request there is no response
  const Response r = response(body);
  EXPECT_EQ(r.status(), 408u);
  EXPECT_NE(r.body.find("the body of the request did not arrive in time"), r.body.npos);
  EXPECT_GT(seconds_since(start), 0.35);
  Client slow = client();  // single bytes do not extend the deadline
  start = Clock::now();
  const std::string text = get("/hello", "X-Long: " + std::string(200, 'x') + "\r\n");
  for (size_t i = 0; i < text.size() && seconds_since(start) < 2; ++i) {
    if (!slow.send(text.substr(i, 1))) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (seconds_since(start) > 0.3) break;
  }
  EXPECT_EQ(response(slow).status(), 408u);
}

TEST_F(HttpLimitsTest, TheDeadlineOfAHeaderBeginsWithItsFirstByte) {
  open({.header_seconds = 0.3, .idle_seconds = 5});
  Client c = client();
  for (int i = 0; i < 2; ++i) {
    c.send(get("/hello"));
    EXPECT_EQ(response(c).body, "hello");
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // within the idle limit
  }
  c.send(get("/hold"));
  const auto responder = held();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // a response has no deadline
  responder->send({.body = "late"});
  EXPECT_EQ(response(c).body, "late");
}

TEST_F(HttpLimitsTest, ClosesIdleConnections) {
  open({.idle_seconds = 0.2});
  Client c = client();
  c.send(get("/hello"));
  EXPECT_EQ(response(c).body, "hello");
  const auto start = Clock::now();
  EXPECT_TRUE(c.at_end());
  EXPECT_GT(seconds_since(start), 0.15);
}

TEST_F(HttpLimitsTest, RefusesConnectionsAboveTheLimit) {
  open({.max_connections = 3});
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(client());
  for (Client& c : clients) {
    c.send(get("/hello"));
    EXPECT_EQ(response(c).body, "hello");
  }
  for (int i = 0; i < 5; ++i) {
    Client more = client();
    more.send(get("/hello"));
    const Response r = response(more);
    EXPECT_EQ(r.status(), 503u);
    EXPECT_TRUE(r.says("Retry-After: 1\r\n"));
    EXPECT_NE(r.body.find("\"code\":\"too_many_connections\""), r.body.npos) << r.body;
    EXPECT_TRUE(more.at_end());
  }
  EXPECT_EQ(handled_, 3);
  clients.pop_back();
  EXPECT_TRUE(soon([&] { return server_->connections() < 3; }));
  Client again = client();
  again.send(get("/hello"));
  EXPECT_EQ(response(again).body, "hello");
}

}  // namespace
}  // namespace heddle::server

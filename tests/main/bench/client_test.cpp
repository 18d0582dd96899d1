// bench client: what it makes of a server's bytes, and of a server.
#include "main/bench/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "server/http/http.h"
#include "tests/main/small_model.h"
#include "tests/support/program.h"
#include "tests/support/refused.h"
#include "tests/support/server_process.h"

namespace heddle::test {
namespace {

TEST(ResponseStream, GivesTheEventsHoweverTheBytesAreCut) {
  const std::string text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
      "chunked\r\n\r\n"
      "8\r\ndata: a\n\r\n4\r\n\ndat\r\n0a\r\na: b\n\ndata\r\nA;x=y\r\n: [DONE]\n\n\r\n0\r\nLate: 1\r\n\r\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    std::vector<std::string> events;
    ResponseStream stream([&](std::string_view event) { events.emplace_back(event); });
    for (size_t at = 0; at < text.size(); at += piece)
      ASSERT_EQ(stream.take(std::string_view(text).substr(at, piece)), at + piece >= text.size()) << piece << ' ' << at;
    EXPECT_EQ(events, (std::vector<std::string>{"a", "b", "[DONE]"}));
    EXPECT_EQ(stream.status(), 200u);
    EXPECT_TRUE(stream.keeps_alive());
  }
}

TEST(ResponseStream, OtherFramings) {
  ResponseStream counted([](std::string_view) { FAIL(); });
  EXPECT_FALSE(counted.take("HTTP/1.1 429 Too Many\r\nconnection: close\r\ncontent-length: 5\r\n\r\nsor"));
  EXPECT_TRUE(counted.take("ry"));
  EXPECT_EQ(counted.status(), 429u);
  EXPECT_EQ(counted.body(), "sorry");
  EXPECT_FALSE(counted.keeps_alive());
  EXPECT_FALSE(counted.ends_with_connection());

  ResponseStream empty([](std::string_view) { FAIL(); });
  EXPECT_TRUE(empty.take("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"));

  std::string event;
  ResponseStream open([&](std::string_view one) { event = one; });
  EXPECT_FALSE(open.take("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\ndata: x\r\n"));
  EXPECT_EQ(event, "x");
  EXPECT_TRUE(open.ends_with_connection());
  EXPECT_FALSE(open.keeps_alive());

  ResponseStream wrong([](std::string_view) {});
  EXPECT_REFUSED(wrong.take("SSH-2.0-OpenSSH\r\n\r\n"), "expected HTTP", "SSH-2.0");
  ResponseStream chunk([](std::string_view) {});
  EXPECT_REFUSED(chunk.take("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), "chunk", "xyz");
}

TEST(BenchClient, ReadsUrls) {
  const auto text = [](const ServerAddress& server) { return server.host + "|" + server.port + "|" + server.base; };
  EXPECT_EQ(text(parse_url("http://127.0.0.1:8080")), "127.0.0.1|8080|/v1");
  EXPECT_EQ(text(parse_url("http://localhost:1/v1/")), "localhost|1|/v1");
  EXPECT_EQ(text(parse_url("host:90/api/v2")), "host|90|/api/v2");
  EXPECT_EQ(text(parse_url("http://[::1]:8080")), "::1|8080|/v1");
  EXPECT_EQ(text(parse_url("http://[::1]")), "::1|80|/v1");
  for (const char* url :
       {"", "http://", "http://:80", "http://a:b", "http://a:", "https://a", "http://a b", "http://a?b"})
    EXPECT_REFUSED(parse_url(url), "URL: expected a text such as http://127.0.0.1:8080", url);
}

// A server of the API that answers every prompt with as many pieces as it asks for.
class BenchClientTest : public testing::Test {
 protected:
  void answer(const server::HttpRequest& request, const std::shared_ptr<server::Responder>& answer) {
    const auto body = nlohmann::json::parse(request.body);
    const std::lock_guard lock(mutex_);
    bodies_.push_back(body);
    ++came_;
    if (request.path != "/v1/completions") return answer->send({.status = 404, .body = "no such page"});
    if (came_ <= refuses_) return answer->send({.status = 429, .body = "later"});
    if (came_ <= drops_) return;
    answer->start({.type = "text/event-stream"});
    for (uint64_t i = 0; i < body["max_tokens"]; ++i)
      answer->write("data: {\"choices\":[{\"index\":0,\"text\":\"x\",\"finish_reason\":null}],\"usage\":null}\n\n");
    answer->write("data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":null}\n\n");
    if (usage_)
      answer->write(
          "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":7,"
          "\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n");
    answer->write("data: [DONE]\n\n");
    answer->finish();
  }
  Result bench(std::vector<std::string> with) {
    with.insert(with.begin(), {"bench", "client", server_.address()});
    return heddle(with);
  }
  nlohmann::json json(std::vector<std::string> with, int status = 0) {
    with.push_back("--json");
    const Result result = bench(with);
    EXPECT_EQ(result.status, status) << result.err;
    return nlohmann::json::parse(result.out);
  }

  std::mutex mutex_;
  std::vector<nlohmann::json> bodies_;
  int came_ = 0, refuses_ = 0, drops_ = 0;
  bool usage_ = true;
  server::HttpServer server_{
      {.port = 0, .idle_seconds = 0.1},
      [this](server::HttpRequest request, std::shared_ptr<server::Responder> one) { answer(request, one); }};
};

TEST_F(BenchClientTest, CountsWhatCame) {
  const auto all = json({"-c", "3", "-n", "10", "-p", "4-9", "-g", "5", "--name", "m", "--shared", "2"});
  EXPECT_EQ(all["answered"], 10);
  EXPECT_EQ(all["failed"], 0);
  EXPECT_EQ(all["chunks"], 50);
  EXPECT_EQ(all["generated_tokens"], 70);  // as the server counts them
  EXPECT_EQ(all["prompt_tokens"], 30);
  EXPECT_EQ(all["cached_tokens"], 10);
  EXPECT_GT(all["first_token_seconds"]["p50"], 0);
  EXPECT_GT(all["generated_tokens_per_second"], 0);
  ASSERT_EQ(bodies_.size(), 10u);
  std::set<std::string> prompts;
  for (const auto& body : bodies_) {
    EXPECT_EQ(body["model"], "m");
    EXPECT_EQ(body["temperature"], 0);
    EXPECT_EQ(body["ignore_eos"], true);
    EXPECT_EQ(body["stream_options"]["include_usage"], true);
    EXPECT_GE(body["prompt"].size(), 6u);
    EXPECT_LE(body["prompt"].size(), 11u);
    for (const uint32_t token : body["prompt"]) EXPECT_LT(token, 4000u);
    EXPECT_EQ(body["prompt"][0], bodies_[0]["prompt"][0]);
    prompts.insert(body["prompt"].dump());
  }
  EXPECT_EQ(prompts.size(), 10u);
}

TEST_F(BenchClientTest, CountsPiecesWhereTheServerDoesNotCount) {
  usage_ = false;
  const auto all = json({"-n", "4", "-p", "5", "-g", "3", "--text"});
  EXPECT_EQ(all["generated_tokens"], 12);
  for (const auto& body : bodies_) EXPECT_TRUE(body["prompt"].is_string());
}

TEST_F(BenchClientTest, SaysWhatWasNotAnswered) {
  refuses_ = 2;
  auto all = json({"-n", "6", "-g", "3"});
  EXPECT_EQ(all["answered"], 4);
  EXPECT_EQ(all["refused"], 2);
  EXPECT_EQ(all["reason"], "429: later");
  refuses_ = 0;
  came_ = 0;
  drops_ = 3;
  all = json({"-n", "6", "-c", "2", "-g", "3"}, 1);
  EXPECT_EQ(all["answered"], 3);
  EXPECT_EQ(all["failed"], 3);
  expect_says(bench({"-n", "1", "-g", "2"}).out,
              {"1 answered in", "by 8 clients", "generated", "7 tokens in 2 chunks", "first token", "p50", "p99", "max",
               "between tokens", "whole request"});
}

// A server may end a connection after an answer without a word; the next request goes out on another one.
TEST_F(BenchClientTest, GoesOnWhenAConnectionWasEnded) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::thread rude([&] {
    for (int i = 0; i < 5; ++i) {
      const int client = ::accept(listener, nullptr, nullptr);
      char bytes[4096];
      EXPECT_GT(::recv(client, bytes, sizeof bytes, 0), 0);
      const std::string answer =
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 14\r\n\r\ndata: [DONE]\n\n";
      EXPECT_EQ(::send(client, answer.data(), answer.size(), MSG_NOSIGNAL), ssize_t(answer.size()));
      ::close(client);
    }
  });
  const ServerAddress server{"127.0.0.1", std::to_string(ntohs(address.sin_port)), "/v1"};
  const ClientTraffic traffic = run_clients(server, "", std::vector<std::string>(5, "{}"), 1, 10);
  rude.join();
  ::close(listener);
  EXPECT_EQ(traffic.answered, 5u);
  EXPECT_EQ(traffic.failed, 0u) << traffic.reason;
}

TEST(BenchClient, ItsDefaultsFitTheServersDefaults) {
  ServerProcess server(program_path(), {"--device", "cpu", "--no-log"});
  ASSERT_TRUE(server.up()) << server.err();
  const Result result = heddle({"bench", "client", server.address(), "-n", "6"});
  EXPECT_EQ(result.status, 0) << result.err;
  expect_says(result.out, {"6 answered in", "0 refused, 0 failed"});
}

TEST_F(BenchClientTest, RefusesWhatCannotBe) {
  expect_says(bench({"-n", "0"}).err, {"--requests"});
  expect_says(bench({"-c", "0"}).err, {"--clients"});
  expect_says(bench({"--timeout", "0"}).err, {"--timeout"});
  expect_says(bench({"-p", "x"}).err, {"--prompt"});
  const Result unreachable = heddle({"bench", "client", "http://127.0.0.1:1", "-n", "2"});
  EXPECT_EQ(unreachable.status, 1);
  expect_says(unreachable.err, {"2 requests failed", "127.0.0.1:1"});
}

TEST_F(BenchClientTest, AServerThatSaysNothing) {
  std::vector<std::shared_ptr<server::Responder>> kept;  // under mutex_: the server's threads call the handler
  server::HttpServer silent({.port = 0}, [&](server::HttpRequest, std::shared_ptr<server::Responder> responder) {
    const std::lock_guard lock(mutex_);
    kept.push_back(std::move(responder));
  });
  const Result result = heddle({"bench", "client", silent.address(), "-n", "2", "--timeout", "0.2"});
  EXPECT_EQ(result.status, 1);
  expect_says(result.err, {"2 requests failed", "nothing came for too long"});
}

}  // namespace
}  // namespace heddle::test

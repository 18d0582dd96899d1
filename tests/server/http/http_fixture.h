// A server for tests: /hello has a fixed response, /echo repeats the request, /throw fails, and a request to /hold
// waits for the test to respond.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "server/http/http.h"
#include "tests/server/http/http_client.h"

namespace heddle::server {

class HttpTest : public testing::Test {
 protected:
  void open(HttpOptions options = {}) {
    options.port = 0;
    server_.emplace(std::move(options), [this](HttpRequest request, std::shared_ptr<Responder> responder) {
      handle(std::move(request), responder);
    });
  }
  void TearDown() override {
    {
      const std::lock_guard lock(mutex_);
      held_.clear();
    }
    EXPECT_TRUE(soon([this] { return !server_ || server_->connections() == 0; }));
  }
  Client client(int receive_buffer = 0) { return Client(server_->port(), receive_buffer); }

  std::shared_ptr<Responder> held() {  // the responder of the next request to /hold
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(10), [this] { return !held_.empty(); })) {
      ADD_FAILURE() << "no request to /hold";
      throw std::runtime_error("no request");
    }
    auto responder = std::move(held_.front());
    held_.pop_front();
    return responder;
  }

  std::optional<HttpServer> server_;
  std::atomic<int> handled_ = 0;

 private:
  void handle(HttpRequest request, const std::shared_ptr<Responder>& responder) {
    ++handled_;
    if (request.path == "/hello") return responder->send({.type = "text/plain", .body = "hello"});
    if (request.path == "/throw") throw std::runtime_error("a bug in a test");
    if (request.path == "/drop") return;
    if (request.path == "/hold") {
      const std::lock_guard lock(mutex_);
      held_.push_back(responder);
      arrived_.notify_all();
      return;
    }
    std::string text = request.method + " " + request.path + " [" + request.query + "]";
    for (const Header& header : request.headers)
      if (header.name.starts_with("x-")) text += " " + header.name + "=" + header.value;
    responder->send({.type = "text/plain", .headers = {{"X-Seen", "yes"}}, .body = text + " " + request.body});
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::shared_ptr<Responder>> held_;
};

inline std::string get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + more + "\r\n";
}
inline std::string post(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more +
         "\r\n" + body;
}

}  // namespace heddle::server

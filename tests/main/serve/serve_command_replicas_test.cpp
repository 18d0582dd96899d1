// Two replicas behind nginx, as deploy/compose has them: one is drained under load, and no request fails.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/server/http/http_client.h"
#include "tests/support/free_port.h"
#include "tests/support/program.h"
#include "tests/support/server_process.h"

namespace heddle::test {
namespace {

using server::Client;

void replace(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
}

// nginx on a free port, with the file of deploy/compose and these replicas.
class Nginx {
 public:
  static constexpr const char* program = "/usr/sbin/nginx";

  Nginx(uint16_t first, uint16_t second) {
    std::string site = contents(std::filesystem::path(HEDDLE_SOURCE_DIR) / "deploy/compose/nginx.conf");
    replace(site, "heddle-1:8080", "127.0.0.1:" + std::to_string(first));
    replace(site, "heddle-2:8080", "127.0.0.1:" + std::to_string(second));
    port_ = free_port();
    replace(site, "listen 8080", "listen 127.0.0.1:" + std::to_string(port_));
    const std::string at = folder_.path().string();
    std::string conf = "daemon off;\nmaster_process off;\npid " + at + "/pid;\nerror_log " + at +
                       "/error.log warn;\nevents {}\nhttp {\naccess_log " + at + "/access.log;\n";
    for (const char* name : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
      conf += std::string(name) + "_temp_path " + at + "/" + name + ";\n";
    const std::string file = folder_.write("nginx.conf", conf + site + "}\n").string();
    process_ = ::fork();
    if (process_ != 0) return;
    ::execl(program, program, "-c", file.c_str(), "-e", (at + "/error.log").c_str(), "-p", at.c_str(), nullptr);
    ::_exit(127);
  }
  ~Nginx() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  bool up() const {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      if (Client(port_).connected()) return true;
    return false;
  }
  uint16_t port() const { return port_; }
  std::string errors() const { return contents(folder_.path() / "error.log"); }

 private:
  Folder folder_;
  uint16_t port_ = 0;
  pid_t process_ = -1;
};

// Clients that each send one request after the other, whole and streamed, until they are stopped.
class Load {
 public:
  explicit Load(uint16_t port, size_t clients = 8) {
    for (size_t i = 0; i < clients; ++i) threads_.emplace_back([this, port, i] { run(port, i); });
  }
  ~Load() { stop(); }
  void stop() {
    stops_ = true;
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }
  void wait_for(size_t more) {  // responses
    const size_t wanted = good + more;
    while (good < wanted && failure().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  std::atomic<size_t> good = 0;

 private:
  void run(uint16_t port, size_t number) {
    for (size_t i = 0; !stops_; ++i) {
      const bool streamed = (number + i) % 2;
      const nlohmann::json body{{"prompt", "Client " + std::to_string(number)},
                                {"max_tokens", 8 + (i * 7 + number * 5) % 40},
                                {"ignore_eos", true},
                                {"stream", streamed}};
      const std::string text = body.dump();
      Client client(port);
      client.send(
          "POST /v1/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\n"
          "Content-Length: " +
          std::to_string(text.size()) + "\r\n\r\n" + text);
      const std::string response = client.all(60);
      const bool complete = response.starts_with("HTTP/1.1 200 ") &&
                            response.find(streamed ? "data: [DONE]" : R"("finish_reason":"length")") != response.npos;
      if (complete) {
        ++good;
        continue;
      }
      const std::lock_guard lock(mutex_);
      failure_ = "request " + text + ": " + (response.empty() ? "no response" : response);
      return;
    }
  }

  std::atomic<bool> stops_ = false;
  std::mutex mutex_;
  std::string failure_;
  std::vector<std::thread> threads_;
};

void drain_one(const std::vector<std::string>& options) {
  if (::access(Nginx::program, X_OK) != 0) GTEST_SKIP() << "nginx is not installed";
  std::vector<std::string> arguments{"weft", "--device", "cpu", "--threads", "1"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  ServerProcess first(program_path(), arguments), second(program_path(), arguments);
  ASSERT_TRUE(first.up() && second.up()) << first.err() << second.err();
  Nginx nginx(first.port(), second.port());
  ASSERT_TRUE(nginx.up()) << nginx.errors();
  Load load(nginx.port());
  load.wait_for(30);
  first.signal(SIGTERM);
  const size_t before = load.good;
  EXPECT_EQ(first.status(), 0) << "every request in progress was finished: " << first.err();
  load.wait_for(30);  // all of them by the other replica
  load.stop();
  EXPECT_EQ(load.failure(), "") << nginx.errors();
  EXPECT_GE(load.good, before + 30);
  const std::string log = first.out();
  EXPECT_GT(std::count(log.begin(), log.end(), '\n'), 5) << "both replicas had requests";
  EXPECT_EQ(first.err().find("stopping: 0 requests"), std::string::npos) << "it was drained under load";
  EXPECT_EQ(second.stop(), 0);
}

TEST(Replicas, OneIsDrainedUnderLoad) { drain_one({}); }
TEST(Replicas, OneIsDrainedUnderLoadAfterADelay) { drain_one({"--drain-delay", "1"}); }

}  // namespace
}  // namespace heddle::test

// API keys, workers, and the origins of web pages.
#include "server/service/service_state.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/support/refused.h"

namespace heddle::server {
namespace {

bool allows_header(const ApiKeys& keys, std::string name, std::string value) {
  HttpRequest request;
  request.headers.push_back({std::move(name), std::move(value)});
  return keys.allow(request);
}
bool allows(const ApiKeys& keys, const std::string& header) { return allows_header(keys, "authorization", header); }

TEST(ApiKeys, WithoutAnyThereIsNoAuthentication) {
  EXPECT_TRUE(ApiKeys({}).allow({}));
  EXPECT_TRUE(allows(ApiKeys({}), "anything"));
}

TEST(ApiKeys, MustMatchEntirely) {
  const ApiKeys keys({"sk-one", "sk-two"});
  EXPECT_FALSE(keys.allow({}));
  for (const char* right : {"Bearer sk-one", "Bearer sk-two", "bearer sk-two", "BEARER  sk-one"})
    EXPECT_TRUE(allows(keys, right)) << right;
  for (const char* wrong : {"", "sk-one", "Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-one2", "Bearer sk-one ",
                            "Basic sk-one", "Bearersk-one", "Bearer Sk-one"})
    EXPECT_FALSE(allows(keys, wrong)) << wrong;
}

TEST(ApiKeys, AreTakenFromTheHeadersOfOtherClientsToo) {
  const ApiKeys keys({"sk-one"});
  for (const char* name : {"x-api-key", "api-key"}) {
    EXPECT_TRUE(allows_header(keys, name, "sk-one")) << name;
    EXPECT_FALSE(allows_header(keys, name, "Bearer sk-one")) << name;
    EXPECT_FALSE(allows_header(keys, name, "")) << name;
  }
}

TEST(ApiKeys, AreClients) {
  const auto with = [](std::string name, std::string value) {
    return ApiKeys::client({.headers = {{std::move(name), std::move(value)}}});
  };
  EXPECT_EQ(with("authorization", "Bearer a"), with("x-api-key", "a"));
  EXPECT_NE(with("authorization", "Bearer a"), with("authorization", "Bearer b"));
}

TEST(ApiKeys, MustNotBeEmpty) { EXPECT_REFUSED(ApiKeys({"a", ""}), "API keys", "empty"); }

TEST(Workers, RunWhatWaitsBeforeTheyStop) {
  std::atomic<int> done = 0;
  {
    Workers workers(2, 100, 1000);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(workers.push(1, [&] { ++done; }));
  }
  EXPECT_EQ(done, 50);
}

TEST(Workers, LimitTheTasksThatWait) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> begun;
  Workers workers(1, 2, 1000);
  ASSERT_TRUE(workers.push(1, [&] {
    begun.set_value();
    open.wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(workers.push(1, [] {}));
  EXPECT_TRUE(workers.push(1, [] {}));
  EXPECT_FALSE(workers.push(1, [] {})) << "two wait";
  gate.set_value();
}

TEST(Workers, LimitTheBytesThatWait) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> begun;
  Workers workers(1, 100, 1000);
  ASSERT_TRUE(workers.push(5000, [&] {  // one alone may be as large as it is
    begun.set_value();
    open.wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(workers.push(600, [] {}));
  EXPECT_TRUE(workers.push(400, [] {}));
  EXPECT_FALSE(workers.push(1, [] {}));
  gate.set_value();
}

TEST(Workers, TakeNothingBesideATaskAboveTheLimit) {
  std::promise<void> gate;
  const auto open = gate.get_future().share();
  std::promise<void> begun;
  Workers workers(1, 100, 1000);
  ASSERT_TRUE(workers.push(1, [&] {
    begun.set_value();
    open.wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(workers.push(5000, [] {})) << "nothing else waits";
  EXPECT_FALSE(workers.push(1, [] {})) << "5000 bytes of 1000 wait";
  gate.set_value();
}

TEST(Origins, ThatCanBeRebound) {
  for (const char* origin : {"http://a.example", "https://a.example:8443", "http://127.0.0.1.evil.example",
                             "http://localhost.evil.example", "http://1.2.3.4e"})
    EXPECT_TRUE(can_be_rebound(origin)) << origin;
  for (const char* origin :
       {"http://127.0.0.1:8080", "http://192.168.1.5", "http://[::1]:8080", "http://localhost:3000",
        "http://a.localhost", "https://gpubox", "null", "app://a.example", ""})
    EXPECT_FALSE(can_be_rebound(origin)) << origin;
}

TEST(Origins, AreRecognized) {
  for (const char* text : {"https://a.example", "http://localhost:3000", "app://obsidian.md"})
    EXPECT_TRUE(is_origin(text));
  for (const char* text :
       {"", "*", "a.example", "https://", "://a", "https://a.example/", "https://a b", "https://u@a"})
    EXPECT_FALSE(is_origin(text)) << text;
}

}  // namespace
}  // namespace heddle::server

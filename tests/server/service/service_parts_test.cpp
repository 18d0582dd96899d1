// The small parts of the service: API keys, workers, random ids.
#include <gtest/gtest.h>

#include <future>

#include "server/service/api_keys.h"
#include "server/service/exchange.h"
#include "server/service/workers.h"
#include "tests/support/refused.h"

namespace heddle::server {
namespace {

bool allows(const ApiKeys& keys, const std::string& header) { return keys.allow(&header); }

TEST(ApiKeys, WithoutAnyThereIsNoAuthentication) {
  EXPECT_TRUE(ApiKeys({}).allow(nullptr));
  EXPECT_TRUE(allows(ApiKeys({}), "anything"));
}

TEST(ApiKeys, MustMatchEntirely) {
  const ApiKeys keys({"sk-one", "sk-two"});
  EXPECT_FALSE(keys.allow(nullptr));
  for (const char* right : {"Bearer sk-one", "Bearer sk-two", "bearer sk-two", "BEARER  sk-one"})
    EXPECT_TRUE(allows(keys, right)) << right;
  for (const char* wrong : {"", "sk-one", "Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-one2", "Bearer sk-one ",
                            "Basic sk-one", "Bearersk-one", "Bearer Sk-one"})
    EXPECT_FALSE(allows(keys, wrong)) << wrong;
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

TEST(RandomIds, AreUnique) {
  const std::string a = random_id("cmpl-"), b = random_id("cmpl-");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.size(), 5 + 24);
  EXPECT_TRUE(a.starts_with("cmpl-"));
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef", 5), a.npos);
}

}  // namespace
}  // namespace heddle::server

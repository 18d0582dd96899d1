// What is kept, what is forgotten, and what that costs.
#include "server/api/responses/response_store.h"

#include <gtest/gtest.h>

#include <thread>

namespace heddle::server {
namespace {

StoredResponse stored(const std::string& id, size_t size = 0) {
  return {.id = id,
          .json = "{\"id\":\"" + id + "\"}",
          .input = {{"in_" + id, "{\"in\":1}"}},
          .output = {{"out_" + id, "{\"out\":1}"}},
          .messages = std::string(size, 'x')};
}

TEST(ResponseStore, KeepsWhatIsAdded) {
  ResponseStore store({});
  EXPECT_EQ(store.find("a"), nullptr);
  store.add(stored("a"));
  ASSERT_NE(store.find("a"), nullptr);
  EXPECT_EQ(store.find("a")->json, R"({"id":"a"})");
  EXPECT_EQ(store.item("in_a"), R"({"in":1})");
  EXPECT_EQ(store.item("out_a"), R"({"out":1})");
  EXPECT_EQ(store.item("out_b"), std::nullopt);
  EXPECT_EQ(store.bytes(), stored("a").bytes());
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_EQ(store.find("a"), nullptr);
  EXPECT_EQ(store.item("in_a"), std::nullopt);
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, TheOldestGoFirst) {
  ResponseStore by_count({.responses = 2});
  for (const char* id : {"a", "b", "c"}) by_count.add(stored(id));
  EXPECT_EQ(by_count.find("a"), nullptr);
  EXPECT_EQ(by_count.item("in_a"), std::nullopt);
  EXPECT_NE(by_count.find("b"), nullptr);
  EXPECT_NE(by_count.find("c"), nullptr);

  const size_t one = stored("a", 1000).bytes();
  ResponseStore by_bytes({.bytes = 3 * one});
  for (const char* id : {"a", "b", "c", "d"}) by_bytes.add(stored(id, 1000));
  EXPECT_EQ(by_bytes.find("a"), nullptr);
  EXPECT_EQ(by_bytes.bytes(), 3 * one);
  by_bytes.add(stored("e", 2000));  // takes the place of two
  EXPECT_EQ(by_bytes.find("b"), nullptr);
  EXPECT_EQ(by_bytes.find("c"), nullptr);
  EXPECT_NE(by_bytes.find("d"), nullptr);
  EXPECT_LE(by_bytes.bytes(), 3 * one);
}

TEST(ResponseStore, WhatIsTooLargeTakesNoOthersPlace) {
  ResponseStore store({.bytes = 2000});
  store.add(stored("a"));
  store.add(stored("b", 4000));
  EXPECT_NE(store.find("a"), nullptr);
  EXPECT_EQ(store.find("b"), nullptr);
  ResponseStore none({.bytes = 0});
  none.add(stored("a"));
  EXPECT_EQ(none.find("a"), nullptr);
}

TEST(ResponseStore, ItemsOfOneIdAreThoseOfTheNewest) {
  ResponseStore store({});
  StoredResponse first = stored("a"), second = stored("b");
  first.input = {{"x", "1"}};
  second.input = {{"x", "2"}};
  store.add(first);
  store.add(second);
  EXPECT_EQ(store.item("x"), "2");
  store.erase("a");
  EXPECT_EQ(store.item("x"), "2");
  store.erase("b");
  EXPECT_EQ(store.item("x"), std::nullopt);
}

TEST(ResponseStore, AResponseThatIsFoundStaysWhole) {
  ResponseStore store({.responses = 1});
  store.add(stored("a"));
  const auto found = store.find("a");
  store.add(stored("b"));
  EXPECT_EQ(found->json, R"({"id":"a"})");
}

TEST(ResponseStore, ResponsesInProgressCanBeCancelled) {
  ResponseStore store({});
  int cancelled = 0;
  EXPECT_FALSE(store.cancel("a"));
  store.begin("a", "{}", [&] {
    ++cancelled;
    store.end("a");  // may end at once
  });
  EXPECT_EQ(store.in_progress("a"), "{}");
  EXPECT_EQ(store.find("a"), nullptr);
  EXPECT_TRUE(store.cancel("a"));
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(store.in_progress("a"), std::nullopt);
  EXPECT_FALSE(store.cancel("a"));
}

TEST(ResponseStore, ManyThreads) {
  ResponseStore store({.responses = 50});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&store, t] {
      for (int i = 0; i < 500; ++i) {
        const std::string id = std::to_string(t) + "." + std::to_string(i);
        store.add(stored(id, 10));
        store.find(id);
        store.item("in_" + id);
        if (i % 3 == 0) store.erase(id);
      }
    });
  for (std::thread& thread : threads) thread.join();
  size_t bytes = 0, count = 0;
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 500; ++i)
      if (const auto found = store.find(std::to_string(t) + "." + std::to_string(i))) {
        bytes += found->bytes();
        ++count;
      }
  EXPECT_EQ(store.bytes(), bytes);
  EXPECT_LE(count, 50u);
}

}  // namespace
}  // namespace heddle::server

// Events for readers that come at any time, and what they may cost.
#include "server/api/responses/event_log.h"

#include <gtest/gtest.h>

#include <thread>

#include "server/service/exchange.h"
#include "tests/server/service/recorded_response.h"

namespace heddle::server {
namespace {

struct Reader {
  explicit Reader(EventLog& log, std::optional<uint64_t> after = std::nullopt)
      : exchange(Exchange::open(std::make_shared<Traffic>(nullptr, false), {}, recorded.responder(), "")),
        attached(log.attach(exchange, after)) {}
  std::string text() const { return recorded.text(); }

  test::Recorded recorded;
  std::shared_ptr<Exchange> exchange;
  bool attached;
};

std::shared_ptr<EventLog::Budget> budget(size_t bytes = 1000) { return std::make_shared<EventLog::Budget>(bytes); }

TEST(EventLogs, ReadersGetWhatIsThereAndWhatComes) {
  EventLog log(budget());
  const Reader first(log);
  log.append("a\n\n");
  log.append("b\n\n");
  const Reader all(log), after_a(log, 0), after_b(log, 1), beyond(log, 7);
  log.append("c\n\n");
  for (const Reader* reader : {&first, &all, &after_a, &after_b, &beyond}) EXPECT_FALSE(reader->recorded.ended());
  log.finish();
  log.append("late\n\n");
  const Reader late(log, 1);
  for (const auto& [reader, text] : {std::pair{&first, "a\n\nb\n\nc\n\n"},
                                     {&all, "a\n\nb\n\nc\n\n"},
                                     {&after_a, "b\n\nc\n\n"},
                                     {&after_b, "c\n\n"},
                                     {&beyond, "c\n\n"},
                                     {&late, "c\n\n"}}) {
    EXPECT_TRUE(reader->attached);
    EXPECT_TRUE(reader->recorded.ended());
    EXPECT_EQ(reader->text(), text);
  }
  EXPECT_EQ(Reader(log, UINT64_MAX - 1).text(), "");
}

TEST(EventLogs, AReaderThatLeavesIsLetGo) {
  EventLog log(budget());
  Reader gone(log);
  const Reader stays(log);
  const std::weak_ptr<Exchange> exchange = gone.exchange;
  gone.exchange.reset();
  log.append("a\n\n");
  EXPECT_FALSE(exchange.expired());
  gone.recorded.disconnect();
  log.append("b\n\n");
  EXPECT_TRUE(exchange.expired());
  EXPECT_EQ(stays.text(), "a\n\nb\n\n");
}

TEST(EventLogs, ShareABudgetWhileTheyGrow) {
  const auto shared = budget(100);
  EventLog log(shared), other(shared);
  log.append(std::string(40, 'a'));
  EXPECT_EQ(shared->used, 48u);
  EXPECT_EQ(log.bytes(), 48u);
  const Reader reader(other);
  other.append("b");
  other.append(std::string(60, 'c'));  // too much: it forgets, but its reader gets it
  EXPECT_EQ(shared->used, 48u);
  EXPECT_FALSE(other.is_whole());
  EXPECT_EQ(reader.text(), "b" + std::string(60, 'c'));
  other.append("d");
  EXPECT_EQ(other.bytes(), 0u);
  const Reader late(other);
  EXPECT_FALSE(late.attached);
  EXPECT_FALSE(late.recorded.streamed());
  EXPECT_EQ(reader.text().back(), 'd');
  EXPECT_TRUE(log.is_whole());
  log.finish();
  EXPECT_EQ(shared->used, 0u) << "the store counts it from now on";
  EXPECT_EQ(Reader(log).text(), std::string(40, 'a'));
}

TEST(EventLogs, GiveTheirBudgetBack) {
  const auto shared = budget();
  {
    EventLog log(shared);
    log.append("abc");
    EXPECT_GT(shared->used, 0u);
  }
  EXPECT_EQ(shared->used, 0u);
}

TEST(EventLogs, ReadersComeWhileEventsAreWritten) {
  EventLog log(budget(1 << 20));
  std::string all;
  for (int i = 0; i < 2000; ++i) all += std::to_string(i) + "\n\n";
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) log.append(std::to_string(i) + "\n\n");
    log.finish();
  });
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 50; ++i) readers.push_back(std::make_unique<Reader>(log));
  writer.join();
  for (const auto& reader : readers) EXPECT_EQ(reader->text(), all);
}

}  // namespace
}  // namespace heddle::server

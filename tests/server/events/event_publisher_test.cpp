// Events over sockets, as a subscriber and a client of the replay get them.
#include "server/events/event_publisher.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tests/server/events/block_reader.h"
#include "tests/support/refused.h"

namespace heddle::test {
namespace {

using namespace server;

uint64_t number_in(const ZmqSocket::Frame& frame) {
  uint64_t number = 0;
  EXPECT_EQ(frame.size(), 8u);
  for (const uint8_t byte : frame) number = number << 8 | byte;
  return number;
}

class Publisher : public testing::Test {
 protected:
  static constexpr size_t any_size = 1 << 20;

  void publish(EventOptions options) {
    options.warn = [this](std::string line) {
      const std::lock_guard lock(mutex_);
      warnings_ += line + "\n";
    };
    publisher_.emplace(std::move(options));
  }
  void subscribe(const std::string& topic) {
    subscriber_.subscribe(topic);
    subscriber_.connect(publisher_->endpoint());
    // a subscription takes a moment to arrive: what is sent before it is lost
    for (uint32_t i = 0; !subscriber_.readable(20); ++i) publisher_->observer().cleared();
    while (subscriber_.readable(50)) subscriber_.receive(any_size);
  }
  // Until one was read with this many events.
  void read_until(size_t events, const std::string& topic) {
    while (reader_.events < events) {
      ASSERT_TRUE(subscriber_.readable(5000));
      const auto frames = subscriber_.receive(any_size);
      ASSERT_EQ(frames.size(), 3u);
      EXPECT_EQ(std::string(frames[0].begin(), frames[0].end()), topic);
      numbers_.push_back(number_in(frames[1]));
      batches_.push_back(frames[2]);
      reader_.read(frames[2]);
    }
  }
  // Batches from `first` on, as the replay sends them.
  std::vector<std::pair<uint64_t, ZmqSocket::Frame>> replay(uint64_t first) {
    ZmqSocket client(context_, ZMQ_DEALER);
    client.set(ZMQ_LINGER, 0);
    client.connect(publisher_->replay_endpoint());
    std::vector<uint8_t> number(8);
    for (size_t i = 0; i < 8; ++i) number[i] = uint8_t(first >> (56 - 8 * i));
    const std::array<std::span<const uint8_t>, 2> request{std::span<const uint8_t>(), number};
    while (!client.send(request)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::vector<std::pair<uint64_t, ZmqSocket::Frame>> all;
    while (client.readable(5000)) {
      const auto frames = client.receive(any_size);
      EXPECT_EQ(frames.size(), 3u);
      EXPECT_TRUE(frames[0].empty());
      if (number_in(frames[1]) == ~uint64_t(0)) {
        EXPECT_TRUE(frames[2].empty());
        return all;
      }
      all.emplace_back(number_in(frames[1]), frames[2]);
    }
    ADD_FAILURE() << "the replay does not end";
    return all;
  }
  std::string warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  ZmqContext context_;
  ZmqSocket subscriber_{context_, ZMQ_SUB};
  BlockReader reader_;
  std::vector<uint64_t> numbers_;
  std::vector<ZmqSocket::Frame> batches_;
  std::mutex mutex_;
  std::string warnings_;
  std::optional<EventPublisher> publisher_;
};

TEST(ListensOn, IsDecidedByTheEndpoint) {
  for (const char* endpoint : {"tcp://*:5557", "tcp://[::]:5557", "tcp://0.0.0.0:5557", "ipc:///run/kv", "inproc://a"})
    EXPECT_TRUE(listens_on(endpoint)) << endpoint;
  for (const char* endpoint : {"tcp://router:5557", "tcp://127.0.0.1:5557"})
    EXPECT_FALSE(listens_on(endpoint)) << endpoint;
}

TEST_F(Publisher, SendsBatchesInOrderWithTheirTopic) {
  for (const EventFormat format : {EventFormat::map, EventFormat::array}) {
    publish({.endpoint = "tcp://127.0.0.1:*", .topic = "kv@pod@weft", .format = format});
    ZmqSocket other(context_, ZMQ_SUB);
    other.subscribe("another topic");
    other.connect(publisher_->endpoint());
    ZmqSocket subscriber(context_, ZMQ_SUB);
    subscriber.subscribe("kv@");
    subscriber.connect(publisher_->endpoint());
    publisher_->observer().stored(1, 0, Text{1, 2});
    while (!subscriber.readable(20)) publisher_->observer().cleared();
    publisher_->observer().cleared();
    for (uint32_t i = 1; i <= 200; ++i) {
      publisher_->observer().stored(i, i - 1, Text{i, i});
      if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
    publisher_.reset();  // sends what is left
    BlockReader reader;
    std::optional<uint64_t> last;
    while (subscriber.readable(500)) {
      const auto frames = subscriber.receive(any_size);
      ASSERT_EQ(frames.size(), 3u);
      EXPECT_EQ(std::string(frames[0].begin(), frames[0].end()), "kv@pod@weft");
      if (last) {
        EXPECT_EQ(number_in(frames[1]), *last + 1);
      }
      last = number_in(frames[1]);
      reader.read(frames[2]);
    }
    ASSERT_EQ(reader.texts.size(), 200u);
    EXPECT_FALSE(other.readable(0));
    EXPECT_EQ(warnings(), "");
  }
}

TEST_F(Publisher, ConnectsToAReaderThatListens) {
  subscriber_.subscribe("");
  subscriber_.bind("tcp://127.0.0.1:*");
  publish({.endpoint = subscriber_.endpoint()});
  while (!subscriber_.readable(20)) publisher_->observer().cleared();
  EXPECT_EQ(subscriber_.receive(any_size).size(), 3u);
}

TEST_F(Publisher, ReplaysWhatWasMissed) {
  publish({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"});
  EXPECT_TRUE(replay(0).empty());
  subscribe("");
  publisher_->observer().cleared();
  read_until(1, "");
  for (uint32_t i = 1; i <= 5; ++i) {
    publisher_->observer().stored(i, i - 1, Text{i});
    read_until(1 + i, "");
  }
  const auto all = replay(0);
  ASSERT_EQ(all.size(), numbers_.back() + 1);
  EXPECT_EQ(all.front().first, 0u);
  EXPECT_EQ(all.back().first, numbers_.back());
  const auto last = replay(numbers_[numbers_.size() - 3]);
  ASSERT_EQ(last.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(last[i].first, numbers_[numbers_.size() - 3 + i]);
    EXPECT_EQ(last[i].second, batches_[numbers_.size() - 3 + i]);
  }
  EXPECT_TRUE(replay(numbers_.back() + 1).empty());
  EXPECT_EQ(warnings(), "");
}

TEST_F(Publisher, KeepsALimitedNumberOfBatches) {
  publish({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*", .max_batches = 3});
  subscribe("");
  publisher_->observer().cleared();
  read_until(1, "");
  for (uint32_t i = 1; i <= 6; ++i) {
    publisher_->observer().stored(i, 0, Text{i});
    read_until(1 + i, "");
  }
  EXPECT_EQ(replay(0).size(), 3u);
  const uint64_t last = numbers_.back();
  publisher_.reset();
  publish({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*", .max_bytes = 1});
  for (uint32_t i = 1; i <= 3; ++i) {
    publisher_->observer().stored(i, 0, Text{i});
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  EXPECT_EQ(replay(0).size(), 1u) << "the newest is always there";
  EXPECT_GT(last, 3u);
}

TEST_F(Publisher, GoesOnAfterRequestsThatAreNone) {
  publish({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"});
  publisher_->observer().cleared();
  const std::vector<uint8_t> few(3), many(5000), eight(8);
  const std::vector<std::vector<std::span<const uint8_t>>> requests{{few},          {{}, few},          {{}, many},
                                                                    {eight, eight}, {{}, eight, eight}, {{}, {}}};
  for (const auto& request : requests) {
    ZmqSocket client(context_, ZMQ_DEALER);
    client.set(ZMQ_LINGER, 100);
    client.connect(publisher_->replay_endpoint());
    EXPECT_TRUE(client.send(request));
    EXPECT_FALSE(client.readable(50));
  }
  EXPECT_EQ(replay(0).size(), 1u);
  expect_says(warnings(), {"expected the number of a batch in 8 bytes"});
}

TEST_F(Publisher, RefusesAnEndpointThatIsInUse) {
  publish({.endpoint = "tcp://127.0.0.1:*", .replay = "tcp://127.0.0.1:*"});
  const std::string port = publisher_->replay_endpoint();
  EXPECT_REFUSED(EventPublisher({.endpoint = "tcp://127.0.0.1:*", .replay = port}), port, "in use");
  EXPECT_REFUSED(EventPublisher({.endpoint = "nowhere"}), "nowhere", "Invalid argument");
}

}  // namespace
}  // namespace heddle::test

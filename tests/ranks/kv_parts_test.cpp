#include "ranks/kv_parts.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/ranks/groups.h"

namespace heddle::ranks {
namespace {

TEST(KvParts, NumbersAreNotUsedAgain) {
  PartNumbers numbers;
  const uint8_t memory[2]{};
  const uint64_t first = numbers.number(memory), second = numbers.number(memory + 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(numbers.number(memory), first);
  EXPECT_EQ(numbers.find(memory + 1), second);
  numbers.drop(memory);
  EXPECT_FALSE(numbers.find(memory));
  EXPECT_GT(numbers.number(memory), second);
  numbers.drop(memory);
  numbers.drop(memory);  // it has none
  auto groups = groups_of(3);
  numbers.send_dropped(*groups[0]);
  numbers.send_dropped(*groups[0]);  // nothing
  groups[0]->send(Message::Kind::allow, {});
  for (uint32_t rank : {1u, 2u}) {
    const Message message = groups[rank]->next();
    EXPECT_EQ(message.kind, Message::Kind::drop_kv);
    EXPECT_EQ(decode_numbers(message.payload), (std::vector<uint64_t>{first, second + 1}));
    EXPECT_EQ(groups[rank]->next().kind, Message::Kind::allow);
  }
}

TEST(KvParts, AllRanksKnowTheLargest) {
  auto groups = groups_of(3);
  const PartSizes sizes[]{{0, 70, 5}, {40, 0, 5}, {30, 20, UINT64_MAX}};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      EXPECT_EQ(largest_part_sizes(sizes[rank], *groups[rank]), (PartSizes{40, 70, UINT64_MAX}));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(KvParts, BuffersAreWaitedFor) {
  PartBuffers buffers(100);
  PartBuffers::Buffer found;
  std::thread waiting([&] { found = buffers.wait_for(7); });
  buffers.put(3, std::make_shared<Bytes>(60));
  EXPECT_EQ(buffers.find(7), nullptr);
  const auto seventh = std::make_shared<Bytes>(40);
  buffers.put(7, seventh);
  waiting.join();
  EXPECT_EQ(found, seventh);
  EXPECT_EQ(buffers.bytes(), 100u);
  EXPECT_THROW(buffers.put(7, seventh), std::logic_error);

  std::atomic<bool> has_room = false;
  std::thread room([&] {
    buffers.wait_for_room(30);
    has_room = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(has_room);
  buffers.drop(9);  // is not there
  buffers.drop(7);
  room.join();
  EXPECT_EQ(buffers.bytes(), 60u);
  EXPECT_EQ(buffers.find(7), nullptr);

  std::thread ended([&] {
    EXPECT_EQ(buffers.wait_for(8), nullptr);
    buffers.wait_for_room(1000);
  });
  buffers.end();
  ended.join();
}

TEST(KvParts, OrdersAreDecodedAsTheyWereEncoded) {
  model::Limits limits{.kv_blocks = 1000};
  limits.window_blocks = 30;
  limits.state_slots = 2;
  std::mt19937_64 random(5);
  for (uint32_t count : {0u, 1u, 2u, 300u}) {
    std::vector<PartOrder> orders;
    for (uint32_t i = 0; i < count; ++i) {
      const auto part = model::KvPart(random() % 3);
      orders.push_back({{part, uint32_t(random() % model::places_of(part, limits))}, random() >> random() % 64});
    }
    Bytes bytes;
    encode_orders(orders, bytes);
    const std::vector<PartOrder> found = decode_orders(bytes, limits);
    ASSERT_EQ(found.size(), orders.size());
    for (size_t i = 0; i < orders.size(); ++i) {
      EXPECT_EQ(found[i].place.part, orders[i].place.part);
      EXPECT_EQ(found[i].place.index, orders[i].place.index);
      EXPECT_EQ(found[i].number, orders[i].number);
    }
    if (count == 0) continue;
    EXPECT_THROW(decode_orders(std::span(bytes).first(bytes.size() - 1), limits), Error);
  }
  for (const PartOrder& bad : {PartOrder{{model::KvPart::block, 1000}, 1}, PartOrder{{model::KvPart::window, 30}, 1},
                               PartOrder{{model::KvPart::state, 2}, 1}, PartOrder{{model::KvPart(3), 0}, 1}}) {
    Bytes bytes;
    encode_orders({&bad, 1}, bytes);
    EXPECT_THROW(decode_orders(bytes, limits), Error);
  }
}

}  // namespace
}  // namespace heddle::ranks

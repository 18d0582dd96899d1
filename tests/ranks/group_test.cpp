// The ranks of a group as threads of the test, each with a Group of its own.
#include "ranks/group.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::ranks {
namespace {

using Kind = Message::Kind;

// Groups of all ranks, connected as the leader's and the others' are.
std::vector<std::unique_ptr<Group>> groups_of(uint32_t ranks, const GroupOptions& options = {}) {
  std::vector<std::unique_ptr<Link>> of_leader;
  std::vector<std::unique_ptr<Group>> all(1);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, both) != 0) throw Error("no sockets");
    of_leader.push_back(std::make_unique<Link>(both[0]));
    std::vector<std::unique_ptr<Link>> link;
    link.push_back(std::make_unique<Link>(both[1]));
    all.push_back(std::make_unique<Group>(rank, ranks, std::move(link), options));
  }
  all[0] = std::make_unique<Group>(0, ranks, std::move(of_leader), options);
  return all;
}
bool soon(const std::function<bool()>& condition) {
  for (uint32_t i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

TEST(Group, AgreesOnTheSmallestAndPassesMessagesOn) {
  auto groups = groups_of(3);
  std::vector<std::vector<uint64_t>> found(3);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] { found[rank] = groups[rank]->smallest({5 + rank, 5 - rank, uint64_t(1) << 40}); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& numbers : found) EXPECT_EQ(numbers, (std::vector<uint64_t>{5, 3, uint64_t(1) << 40}));
  const Bytes large(3 << 20, 7);
  std::thread sending([&] {
    groups[0]->send(Kind::batch, large);
    groups[0]->send(Kind::allow, bytes_of("x"));
  });
  for (uint32_t rank : {1u, 2u}) {
    EXPECT_EQ(groups[rank]->next().payload, large);
    EXPECT_EQ(groups[rank]->next().text(), "x");
  }
  sending.join();
  groups[0].reset();
  for (uint32_t rank : {1u, 2u}) {
    EXPECT_EQ(groups[rank]->next().kind, Kind::end);
    EXPECT_FALSE(groups[rank]->alarm().raised());
  }
}

TEST(Group, WhatFailsIsKnownToAll) {
  auto groups = groups_of(3);
  groups[2]->fail("no memory");
  for (const auto& group : groups) {
    EXPECT_TRUE(soon([&] { return group->alarm().raised(); }));
    EXPECT_EQ(group->alarm().why(), "rank 2: no memory");
  }
  EXPECT_THROW(groups[1]->next(), Error);
  EXPECT_THROW(groups[0]->send(Kind::batch, {}), Error);
}

TEST(Group, ARankThatIsGoneIsNamedWithItsFate) {
  auto groups = groups_of(3, {.fate = [](uint32_t rank) { return rank == 1 ? "was ended by signal 9" : ""; }});
  groups[1].reset();
  EXPECT_TRUE(soon([&] { return groups[2]->alarm().raised(); }));
  EXPECT_EQ(groups[2]->alarm().why(), "rank 1 was ended by signal 9");
  groups = groups_of(2);
  groups[0]->fail("");  // no end is sent
  EXPECT_TRUE(soon([&] { return groups[1]->alarm().raised(); }));
}

TEST(Group, ARankThatIsSilentIsNamed) {
  int both[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
  std::vector<std::unique_ptr<Link>> link;
  link.push_back(std::make_unique<Link>(both[0]));
  std::string stuck;
  Group group(1, 2, std::move(link),
              {.patience = {.silence = 0.3}, .stuck = [&](const std::string& why) { stuck = why; }});
  const std::string expected = "rank 0 (the leader) has given no sign of life for 0.3 s";
  try {
    group.next();
    ADD_FAILURE() << "there is no message";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), expected);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));  // the process does not end: it hangs
  EXPECT_EQ(stuck, expected);
  ::close(both[1]);
}

TEST(Group, OtherBytesAreNoMessages) {
  int both[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
  std::vector<std::unique_ptr<Link>> link;
  link.push_back(std::make_unique<Link>(both[0]));
  Group group(1, 2, std::move(link));
  ASSERT_EQ(::write(both[1], "GET / HTTP/1.1\r\n", 16), 16);
  EXPECT_TRUE(soon([&] { return group.alarm().raised(); }));
  EXPECT_NE(group.alarm().why().find("expected a message of heddle"), std::string::npos) << group.alarm().why();
  ::close(both[1]);
}

}  // namespace
}  // namespace heddle::ranks

// The ranks of a group as threads of the test, each with a Group of its own.
#include "ranks/group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/ranks/groups.h"

namespace heddle::ranks {
namespace {

using Kind = Message::Kind;

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

TEST(Group, QuestionsAreAnsweredByAllInAnyOrder) {
  auto groups = groups_of(3);
  std::vector<uint64_t> asked;
  for (const char* text : {"a", "b", "c"}) asked.push_back(groups[0]->ask(bytes_of(text)));  // no handler is there yet
  std::vector<std::pair<uint64_t, std::string>> taken;
  groups[1]->on_question([&](uint64_t number, std::span<const uint8_t> question) {
    groups[1]->answer(number, bytes_of("1" + std::string(question.begin(), question.end())));
  });
  std::mutex mutex;
  groups[2]->on_question([&](uint64_t number, std::span<const uint8_t> question) {
    const std::lock_guard lock(mutex);
    taken.emplace_back(number, std::string(question.begin(), question.end()));
  });
  groups[0]->send(Kind::batch, bytes_of("x"));  // goes its own way
  EXPECT_EQ(groups[2]->next().text(), "x");
  EXPECT_TRUE(soon([&] {
    const std::lock_guard lock(mutex);
    return taken.size() == 3;
  }));
  for (auto late = taken.rbegin(); late != taken.rend(); ++late)
    groups[2]->answer(late->first, bytes_of("2" + late->second));
  for (size_t i : {1u, 0u, 2u}) {
    const std::string text(1, char('a' + i));
    const std::vector<Bytes> answers = groups[0]->answers(asked[i]);
    ASSERT_EQ(answers.size(), 2u);
    for (size_t rank : {1u, 2u})
      EXPECT_EQ(std::string(answers[rank - 1].begin(), answers[rank - 1].end()), std::to_string(rank) + text);
  }
  const uint64_t open = groups[0]->ask(bytes_of("d"));
  groups[2]->fail("no memory");
  EXPECT_THROW(groups[0]->answers(open), Error);
  EXPECT_THROW(groups[0]->ask(bytes_of("e")), Error);
}

TEST(Group, AnAnswerToNoQuestionEndsTheGroup) {
  auto groups = groups_of(2);
  groups[1]->answer(7, {});
  EXPECT_TRUE(soon([&] { return groups[0]->alarm().raised(); }));
  EXPECT_NE(groups[0]->alarm().why().find("an answer to no open question"), std::string::npos);
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

// One thread watches: it receives all messages, sends signs of life, and raises the alarm when one is missing.
#include "ranks/group.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace heddle::ranks {
namespace {

constexpr double ping_seconds = 0.5;
constexpr double stuck_seconds = 3;  // after a fault, for the process to end by itself
constexpr double send_seconds = 5;

std::string lost_text(uint32_t rank, const std::string& how) {
  return fmt::format("rank {}{} {}", rank, rank == 0 ? " (the leader)" : "", how);
}

Bytes numbered(uint64_t number, std::span<const uint8_t> what) {
  Bytes bytes;
  ByteWriter(bytes).number(number);
  bytes.insert(bytes.end(), what.begin(), what.end());
  return bytes;
}
void give_question(const Group::OnQuestion& call, const Message& message) {
  ByteReader reader(message.payload);
  const uint64_t number = reader.number();
  call(number, reader.rest());
}

}  // namespace

Group::Group(uint32_t rank, uint32_t ranks, std::vector<std::unique_ptr<Link>> links, GroupOptions options)
    : rank_(rank), ranks_(ranks), options_(std::move(options)) {
  check(rank < ranks && links.size() == (rank == 0 ? ranks - 1 : 1), "a connection to every rank, or to the leader");
  for (uint32_t i = 0; i < links.size(); ++i)
    members_.push_back({.rank = rank == 0 ? i + 1 : 0, .link = std::move(links[i])});
  end_ = ::eventfd(0, EFD_CLOEXEC);
  check(end_ >= 0, "a thread can be woken");
  thread_ = std::thread([this] { watch(); });
}

Group::~Group() {
  const uint64_t one = 1;
  check(::write(end_, &one, sizeof one) == sizeof one, "the thread can be woken");
  thread_.join();
  ::close(end_);
  if (rank_ != 0 || alarm_.raised()) return;
  for (Member& member : members_) try {
      member.link->send(Message::Kind::end, {}, 1);
    } catch (const Error&) {  // it is gone already
    }
}

std::vector<uint64_t> Group::smallest(std::vector<uint64_t> numbers) {
  const auto encoded = [](const std::vector<uint64_t>& all) {
    Bytes bytes;
    ByteWriter writer(bytes);
    for (const uint64_t number : all) writer.number(number);
    return bytes;
  };
  const auto expect = [&](const Message& message, Message::Kind kind) {
    std::vector<uint64_t> found;
    if (message.kind == kind)
      for (ByteReader reader(message.payload); reader.left() > 0;) found.push_back(reader.number());
    if (message.kind != kind || found.size() != numbers.size())
      throw Error("the ranks are not at the same place: expected {} numbers, found {}", numbers.size(), found.size());
    return found;
  };
  if (rank_ != 0) {
    members_[0].link->send(Message::Kind::offer, encoded(numbers), send_seconds);
    return expect(take(members_[0]), Message::Kind::agreed);
  }
  for (Member& member : members_) {
    const std::vector<uint64_t> offer = expect(take(member), Message::Kind::offer);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::min(numbers[i], offer[i]);
  }
  send(Message::Kind::agreed, encoded(numbers));
  return numbers;
}

void Group::send(Message::Kind kind, std::span<const uint8_t> payload) {
  alarm_.expect_quiet();
  for (Member& member : members_) try {
      member.link->send(kind, payload, send_seconds);
    } catch (const Error& error) {
      // the thread that watches may know more: it sees a closed connection, and a silence before this time is over
      for (const auto start = Clock::now(); !alarm_.raised() && seconds_since(start) < 1;)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      alarm_.raise(lost_text(member.rank, error.what()));
      alarm_.expect_quiet();
    }
}

Message Group::next() { return take(members_[0]); }

Message Group::take(Member& member) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return !member.inbox.empty() || alarm_.raised(); });
  if (member.inbox.empty()) alarm_.expect_quiet();
  Message message = std::move(member.inbox.front());
  member.inbox.pop_front();
  return message;
}

uint64_t Group::ask(std::span<const uint8_t> question) {
  uint64_t number;
  {
    const std::lock_guard lock(mutex_);
    number = ++questions_;
    asked_[number] = {.answers = std::vector<std::optional<Bytes>>(members_.size()), .open = members_.size()};
  }
  send(Message::Kind::question, numbered(number, question));
  return number;
}

std::vector<Bytes> Group::answers(uint64_t question) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return asked_.at(question).open == 0 || alarm_.raised(); });
  const auto asked = asked_.extract(question);
  if (asked.mapped().open > 0) alarm_.expect_quiet();
  std::vector<Bytes> all;
  for (std::optional<Bytes>& answer : asked.mapped().answers) all.push_back(std::move(*answer));
  return all;
}

void Group::on_question(OnQuestion call) {
  const std::lock_guard lock(question_mutex_);
  on_question_ = std::move(call);
  if (!on_question_) return;
  for (const Message& message : std::exchange(early_questions_, {})) give_question(on_question_, message);
}

void Group::answer(uint64_t question, std::span<const uint8_t> answer) {
  members_[0].link->send(Message::Kind::answer, numbered(question, answer), send_seconds);
}

void Group::take_question(const Message& message) {
  const std::lock_guard lock(question_mutex_);
  on_question_ ? give_question(on_question_, message) : early_questions_.push_back(message);
}

void Group::take_answer(const Member& member, const Message& message) {
  ByteReader reader(message.payload);
  const uint64_t number = reader.number();
  const std::span<const uint8_t> answer = reader.rest();
  const std::lock_guard lock(mutex_);
  const auto asked = asked_.find(number);
  const size_t index = size_t(&member - members_.data());
  if (asked == asked_.end() || asked->second.answers[index]) throw Error("an answer to no open question");
  asked->second.answers[index].emplace(answer.begin(), answer.end());
  if (--asked->second.open == 0) arrived_.notify_all();
}

void Group::fail(const std::string& why) {
  alarm_.raise(fmt::format("rank {}: {}", rank_, why));
  spread();
}

// A rank that failed tells the leader, and the leader all others. Once.
void Group::spread() {
  {
    const std::lock_guard lock(mutex_);
    arrived_.notify_all();
    if (std::exchange(spread_, true)) return;
  }
  const std::string why = alarm_.why();
  for (Member& member : members_) try {
      member.link->send(Message::Kind::failed, bytes_of(why), 0.2);
    } catch (const Error&) {  // it is the one that was lost, or is gone, too
    }
}

void Group::watch() {
  auto pinged = Clock::now() - std::chrono::seconds(1);
  std::optional<Clock::time_point> raised;
  for (Member& member : members_) receive(member);  // what came with the answer that was waited for
  for (bool stuck = false;;) {
    std::vector<pollfd> polls{{.fd = end_, .events = POLLIN, .revents = 0}};
    for (const Member& member : members_)
      polls.push_back({.fd = member.open ? member.link->socket() : -1, .events = POLLIN, .revents = 0});
    ::poll(polls.data(), polls.size(), 100);
    if (polls[0].revents) return;
    for (size_t i = 0; i < members_.size(); ++i)
      if (polls[i + 1].revents) receive(members_[i]);
    for (const Member& member : members_)
      if (member.open && !member.ended && seconds_since(member.heard) > options_.patience.silence)
        lose(member, fmt::format("has given no sign of life for {} s", options_.patience.silence));
    if (alarm_.raised()) {
      if (!raised) raised = Clock::now();
      spread();
      if (seconds_since(*raised) > stuck_seconds && !std::exchange(stuck, true) && options_.stuck)
        options_.stuck(alarm_.why());
    }
    if (seconds_since(pinged) < ping_seconds) continue;
    pinged = Clock::now();
    for (Member& member : members_) try {
        if (member.open) member.link->ping();
      } catch (const Error&) {  // it is read as closed, or its silence is noticed
      }
  }
}

void Group::receive(Member& member) {
  std::vector<Message> messages;
  std::string broken;
  const auto guarded = [&](auto&& read) {
    try {
      read();
    } catch (const Error& error) {
      member.open = false;
      broken = error.what();
    }
  };
  guarded([&] { member.open = member.link->receive(messages); });
  member.heard = Clock::now();
  for (Message& message : messages) {
    if (message.kind == Message::Kind::ping) continue;
    if (message.kind == Message::Kind::question) {
      guarded([&] { take_question(message); });
      continue;
    }
    if (message.kind == Message::Kind::answer) {
      guarded([&] { take_answer(member, message); });
      continue;
    }
    if (message.kind == Message::Kind::failed) {
      alarm_.raise(message.text());
      continue;
    }
    const std::lock_guard lock(mutex_);
    member.ended |= message.kind == Message::Kind::end;
    member.inbox.push_back(std::move(message));
    arrived_.notify_all();
  }
  if (!broken.empty()) lose(member, "has sent something else: " + broken);
  if (member.open || member.ended || alarm_.raised()) return;
  const std::string fate = options_.fate ? options_.fate(member.rank) : "";
  lose(member, fate.empty() ? "is gone: its connection was closed" : fate);
}

void Group::lose(const Member& member, const std::string& how) { alarm_.raise(lost_text(member.rank, how)); }

}  // namespace heddle::ranks

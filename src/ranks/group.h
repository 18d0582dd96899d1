// A group of ranks while it works: messages between rank 0, the leader, and the others, and signs of life of them all.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "model/collective.h"
#include "ranks/alarm.h"
#include "ranks/link.h"

namespace heddle::ranks {

struct GroupOptions {
  Patience patience;
  uint32_t stages = 1;  // that the ranks are divided into, neighbours in one
  // How a rank ended after it closed its connection: "was ended by signal 9". Empty, or returns "": unknown.
  std::function<std::string(uint32_t rank)> fate;
  // Called by a thread of the group where this process has not ended the group 3 s after a fault: it hangs.
  std::function<void(const std::string& why)> stuck;
};

class Group {
 public:
  // `links`: of the leader, one to every other rank, in order; of another rank, the one to the leader.
  Group(uint32_t rank, uint32_t ranks, std::vector<std::unique_ptr<Link>> links, GroupOptions options = {});
  // The leader's says that the work is done, unless there was a fault.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }
  Alarm& alarm() { return alarm_; }
  const Alarm& alarm() const { return alarm_; }
  const GroupOptions& options() const { return options_; }

  // Every rank's numbers become the smallest of all ranks. Waits for all; a rank that is busy gives signs of life.
  std::vector<uint64_t> smallest(std::vector<uint64_t> numbers);
  void send(Message::Kind kind, std::span<const uint8_t> payload);  // of the leader: to all others
  Message next();  // of another rank: the leader's next message; Kind::end where the work is done

  // Beside all that, and in no order with it. Of the leader, from any thread: asks all others, and returns the number
  // of the question; answers(), called once for each, waits for what they say and gives it in their order.
  uint64_t ask(std::span<const uint8_t> question);
  std::vector<Bytes> answers(uint64_t question);
  // Of another rank: gets each question, on the thread that receives, which must not wait; those that came before it
  // are given now. Empty: questions are kept. The answer may come from any thread, at any time.
  using OnQuestion = std::function<void(uint64_t number, std::span<const uint8_t> question)>;
  void on_question(OnQuestion call);
  void answer(uint64_t question, std::span<const uint8_t> answer);

  // This rank cannot go on: all others are told. What is known already stays the reason.
  void fail(const std::string& why);

 private:
  struct Member {
    uint32_t rank;
    std::unique_ptr<Link> link;
    Clock::time_point heard = Clock::now();
    bool open = true, ended = false;
    std::deque<Message> inbox = {};
  };
  void watch();
  void receive(Member& member);
  void take_question(const Message& message);
  void take_answer(const Member& member, const Message& message);
  void lose(const Member& member, const std::string& how);
  void spread();  // the reason for which the group cannot go on
  Message take(Member& member);
  struct Asked {
    std::vector<std::optional<Bytes>> answers;  // of each member
    size_t open = 0;                            // that have not answered
  };

  const uint32_t rank_, ranks_;
  const GroupOptions options_;
  Alarm alarm_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Member> members_;
  bool spread_ = false;
  std::unordered_map<uint64_t, Asked> asked_;
  uint64_t questions_ = 0;

  std::mutex question_mutex_;  // guards these, and is held while one is given
  OnQuestion on_question_;
  std::vector<Message> early_questions_;  // that came before the handler

  int end_ = -1;  // descriptor that wakes the thread for its end
  std::thread thread_;
};

}  // namespace heddle::ranks

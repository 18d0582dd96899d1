#include "engine/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <future>
#include <mutex>
#include <thread>

#include "tests/engine/counting.h"
#include "tests/support/sanitized.h"

namespace heddle::engine {
namespace {

using namespace std::chrono_literals;
using test::counting_vocabulary;

// The events of one request, and a way to wait for its ends.
class EventLog {
 public:
  OnEvent callback() {
    return [this](const Event& event) { add(event); };
  }
  void add(const Event& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_all();
  }
  size_t ends(FinishReason reason = FinishReason::none) const {  // none: of any kind
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const Event& event : events_)
      if (event.finish_reason != FinishReason::none && (reason == FinishReason::none || event.finish_reason == reason))
        ++count;
    return count;
  }
  std::vector<uint32_t> tokens(uint32_t index = 0) const {
    const std::lock_guard lock(mutex_);
    std::vector<uint32_t> ids;
    for (const Event& event : events_)
      if (event.index == index && event.finish_reason == FinishReason::none) ids.push_back(event.pick.id);
    return ids;
  }
  Event last() const {
    const std::lock_guard lock(mutex_);
    return events_.empty() ? Event{} : events_.back();
  }
  bool wait_for_events(size_t count) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return events_.size() >= count; });
  }
  bool wait_for_ends(size_t count = 1) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] {
      size_t ended = 0;
      for (const Event& event : events_) ended += event.finish_reason != FinishReason::none;
      return ended >= count;
    });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Event> events_;
};

// Callbacks wait in front of it until it is opened.
class Gate {
 public:
  void wait() {
    ++waiting_;
    opened_.wait();
  }
  void open() { promise_.set_value(); }
  bool wait_for_waiting(int count) const {
    for (int i = 0; i < 20'000 && waiting_ < count; ++i) std::this_thread::sleep_for(1ms);
    return waiting_ >= count;
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
  std::atomic<int> waiting_ = 0;
};

Request request(uint32_t first, uint32_t max_tokens, uint32_t n = 1) {
  Request request{.prompt = {first}, .max_tokens = max_tokens, .n = n};
  request.sampling.temperature = 0;
  return request;
}
std::vector<uint32_t> counted(uint32_t after, uint32_t count) {
  std::vector<uint32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = (after + 1 + i) % counting_vocabulary;
  return ids;
}

class EngineThreads : public testing::Test {
 protected:
  void start(double patience = 30) { thread_.emplace(engine_, patience); }
  void slow_steps() {
    backend_.each_batch = [] { std::this_thread::sleep_for(1ms); };
  }

  model::Model model_ = test::counting_model();
  test::CountingBackend backend_;
  Engine engine_{model_, backend_, {.rows = 64, .kv_blocks = 2048}, {.max_waiting = 256}};
  std::optional<EngineThread> thread_;
};

TEST_F(EngineThreads, DeliverTokensInOrderAndOneEnd) {
  start();
  EventLog log;
  const RequestId id = thread_->submit(request(7, 250), log.callback());
  ASSERT_TRUE(log.wait_for_ends());
  EXPECT_EQ(log.tokens(), counted(7, 250));
  EXPECT_EQ(log.last().finish_reason, FinishReason::length);
  EXPECT_EQ(log.last().request, id);
  EXPECT_EQ(log.last().generated, 250u);
}

TEST_F(EngineThreads, TakeRequestsOfManyThreads) {
  start();
  constexpr uint32_t users = 8, each = 12;
  std::array<std::array<EventLog, each>, users> log;
  std::vector<std::thread> threads;
  for (uint32_t user = 0; user < users; ++user)
    threads.emplace_back([&, user] {
      for (uint32_t i = 0; i < each; ++i)
        thread_->submit(request(user * each + i, 5 + i, 1 + i % 2), log[user][i].callback());
    });
  for (std::thread& thread : threads) thread.join();
  for (uint32_t user = 0; user < users; ++user)
    for (uint32_t i = 0; i < each; ++i) {
      const EventLog& one = log[user][i];
      ASSERT_TRUE(one.wait_for_ends(1 + i % 2));
      for (uint32_t index = 0; index <= i % 2; ++index)
        EXPECT_EQ(one.tokens(index), counted(user * each + i, 5 + i)) << user << " " << i;
      EXPECT_EQ(one.ends(FinishReason::length), 1 + i % 2);
    }
  thread_.reset();
  for (const auto& of_user : log)
    for (uint32_t i = 0; i < each; ++i) EXPECT_EQ(of_user[i].ends(), 1 + i % 2);
}

TEST_F(EngineThreads, RefuseInvalidRequestsAtOnce) {
  start();
  EventLog log;
  EXPECT_THROW(thread_->submit(Request{}, log.callback()), Error);
  EXPECT_THROW(thread_->submit(request(counting_vocabulary, 1), log.callback()), Error);
  Request hot = request(1, 1);
  hot.sampling.temperature = -1;
  EXPECT_THROW(thread_->submit(hot, log.callback()), Error);
  EXPECT_EQ(log.ends(), 0u);
}

TEST_F(EngineThreads, RefuseWhenTooManyWait) {
  slow_steps();
  Engine narrow(model_, backend_, {.rows = 4, .kv_blocks = 4}, {.max_waiting = 2});
  std::array<EventLog, 50> log;
  size_t taken = 0;
  {
    EngineThread thread(narrow);
    const auto submit_all = [&] {
      for (; taken < log.size(); ++taken) thread.submit(request(1, 100), log[taken].callback());
    };
    EXPECT_THROW(submit_all(), Busy);
  }
  EXPECT_GE(taken, 2u);
  for (size_t i = 0; i < log.size(); ++i) EXPECT_EQ(log[i].ends(), i < taken ? 1u : 0u) << i;
}

TEST_F(EngineThreads, IsolateACallbackThatBlocks) {
  start();
  Gate gate;
  std::array<EventLog, 12> held;
  for (EventLog& log : held)
    thread_->submit(request(1, 30), [&](const Event& event) {
      if (log.tokens().empty()) gate.wait();
      log.add(event);
    });
  ASSERT_TRUE(gate.wait_for_waiting(12));
  EventLog free;
  thread_->submit(request(50, 40), free.callback());
  ASSERT_TRUE(free.wait_for_ends());
  EXPECT_EQ(free.tokens(), counted(50, 40));
  EXPECT_EQ(held[0].tokens().size(), 0u);
  gate.open();
  for (const EventLog& log : held) {
    ASSERT_TRUE(log.wait_for_ends());
    EXPECT_EQ(log.tokens(), counted(1, 30));
  }
}

TEST_F(EngineThreads, CancelTheRequestOfACallbackThatThrows) {
  start();
  slow_steps();
  EventLog thrower, other;
  thread_->submit(request(1, 3000), [&](const Event& event) {
    thrower.add(event);
    if (event.finish_reason != FinishReason::none || thrower.tokens().size() == 3) throw std::runtime_error("no more");
  });
  thread_->submit(request(2, 60), other.callback());
  ASSERT_TRUE(thrower.wait_for_ends());
  ASSERT_TRUE(other.wait_for_ends());
  EXPECT_EQ(thrower.tokens(), counted(1, 3));
  EXPECT_EQ(thrower.last().finish_reason, FinishReason::cancelled);
  EXPECT_EQ(other.tokens(), counted(2, 60));
  thread_.reset();
  EXPECT_EQ(thrower.ends(), 1u);
}

TEST_F(EngineThreads, CanBeUsedFromCallbacks) {
  start();
  slow_steps();
  EventLog first, second;
  thread_->submit(request(1, 3000), [&](const Event& event) {
    first.add(event);
    if (first.tokens().size() != 2 || event.finish_reason != FinishReason::none) return;
    thread_->submit(request(9, 3), second.callback());
    thread_->cancel(event.request);
    EXPECT_GE(thread_->metrics().submitted, 1u);
  });
  ASSERT_TRUE(first.wait_for_ends());
  ASSERT_TRUE(second.wait_for_ends());
  EXPECT_EQ(first.last().finish_reason, FinishReason::cancelled);
  EXPECT_LT(first.tokens().size(), 3000u);
  EXPECT_EQ(second.tokens(), counted(9, 3));
}

TEST_F(EngineThreads, IgnoreACancelAfterTheEnd) {
  start();
  thread_->cancel(12345);
  EventLog log;
  const RequestId id = thread_->submit(request(1, 2), log.callback());
  ASSERT_TRUE(log.wait_for_ends());
  thread_->cancel(id);
  thread_->cancel(id);
  thread_.reset();
  EXPECT_EQ(log.ends(FinishReason::length), 1u);
  EXPECT_EQ(log.ends(), 1u);
}

TEST_F(EngineThreads, DeliverEveryEndOnceWhenDestroyed) {
  start();
  slow_steps();
  std::array<EventLog, 40> log;
  for (uint32_t i = 0; i < log.size(); ++i) thread_->submit(request(i, 3000, 1 + i % 3), log[i].callback());
  ASSERT_TRUE(log[0].wait_for_events(5));
  thread_.reset();
  for (uint32_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i].ends(FinishReason::cancelled), 1 + i % 3) << i;
    EXPECT_EQ(log[i].ends(), 1 + i % 3) << i;
    EXPECT_EQ(log[i].tokens(), counted(i, uint32_t(log[i].tokens().size()))) << i;
  }
}

TEST_F(EngineThreads, WaitForCallbacksWhenDestroyed) {
  start();
  Gate gate;
  EventLog log, late;
  thread_->submit(request(1, 5), [&](const Event& event) {
    if (log.tokens().empty()) {
      gate.wait();
      EXPECT_THROW(thread_->submit(request(1, 1), late.callback()), Busy);  // too late
      thread_->cancel(event.request);
    }
    log.add(event);
  });
  ASSERT_TRUE(gate.wait_for_waiting(1));
  std::thread opens([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  thread_.reset();
  opens.join();
  EXPECT_EQ(log.ends(), 1u);
  EXPECT_EQ(late.ends(), 0u);
}

TEST_F(EngineThreads, FailEveryRequestWhenTheDeviceFails) {
  start();
  std::atomic<int> batches = 0;
  backend_.each_batch = [&] {
    if (++batches > 20) throw Error("the device is on fire");
    std::this_thread::sleep_for(1ms);
  };
  std::array<EventLog, 5> log;
  for (EventLog& one : log) thread_->submit(request(1, 3000), one.callback());
  for (const EventLog& one : log) {
    ASSERT_TRUE(one.wait_for_ends());
    EXPECT_EQ(one.last().finish_reason, FinishReason::failed);
    EXPECT_NE(one.last().reason.find("on fire"), std::string::npos) << one.last().reason;
  }
  thread_.reset();
  for (const EventLog& one : log) EXPECT_EQ(one.ends(), 1u);
}

// submit() does not wait for a step that takes forever: an invalid request and a full queue are reported at once.
TEST_F(EngineThreads, SubmitWithoutWaitingForAStep) {
  Gate gate;
  backend_.each_batch = [&] { gate.wait(); };
  Engine narrow(model_, backend_, {.rows = 64, .kv_blocks = 64}, {.max_waiting = 5});
  EngineThread thread(narrow);
  std::array<EventLog, 6> log;
  RequestId last = thread.submit(request(1, 3), log[0].callback());
  ASSERT_TRUE(gate.wait_for_waiting(1));
  // the first request counts as waiting until its step has ended
  for (uint32_t i = 1; i < 5; ++i) {
    const RequestId id = thread.submit(request(1, 3), log[i].callback());
    EXPECT_GT(id, std::exchange(last, id));
  }
  EXPECT_THROW(thread.submit(request(1, 3), log[5].callback()), Busy);
  EXPECT_THROW(thread.submit(Request{}, log[5].callback()), Error);
  EXPECT_EQ(thread.metrics().refused, 2u);
  EXPECT_EQ(thread.metrics().waiting, 5u);
  thread.cancel(last);  // the engine has not seen it yet
  gate.open();
  for (uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(log[i].wait_for_ends());
  EXPECT_EQ(log[3].tokens(), counted(1, 3));
  EXPECT_EQ(log[4].last().finish_reason, FinishReason::cancelled);
  EXPECT_EQ(log[4].last().request, last);
  EXPECT_EQ(log[5].ends(), 0u);
}

TEST_F(EngineThreads, ReportWhyTheEngineHasStopped) {
  struct Mortal : test::CountingBackend {
    std::atomic<bool> dead = false;
    bool usable() const override { return !dead; }
  } mortal;
  Gate gate;
  mortal.each_batch = [&] {
    gate.wait();
    mortal.dead = true;
    throw Error("it was dropped");
  };
  Engine engine(model_, mortal, {.rows = 64, .kv_blocks = 64});
  EngineThread thread(engine);
  EXPECT_EQ(thread.stopped(), "");
  EventLog first, second;
  thread.submit(request(1, 3), first.callback());
  ASSERT_TRUE(gate.wait_for_waiting(1));
  thread.submit(request(1, 3, 2), second.callback());  // the failure is not known yet
  gate.open();
  ASSERT_TRUE(first.wait_for_ends());
  ASSERT_TRUE(second.wait_for_ends(2));
  EXPECT_EQ(second.ends(FinishReason::failed), 2u);
  EXPECT_EQ(second.last().reason, "it was dropped");
  for (int i = 0; i < 5000 && thread.stopped().empty(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(thread.stopped(), "it was dropped");
  EXPECT_THROW(thread.submit(request(1, 3), first.callback()), Stopped);
}

TEST_F(EngineThreads, EmbedAndScore) {
  start();
  EventLog embedded, scored;
  Request both[] = {request(3, 5), request(3, 0)};
  both[0].prompt = {1, 2, 2, 9};
  both[0].embed = true;
  both[1].prompt = {1, 2, 9};
  both[1].prompt_logprobs = 1;
  thread_->submit(both[0], embedded.callback());
  thread_->submit(both[1], scored.callback());
  ASSERT_TRUE(embedded.wait_for_ends());
  ASSERT_TRUE(scored.wait_for_ends());
  const float half = float(1 / std::sqrt(2.0));
  EXPECT_EQ(embedded.last().finish_reason, FinishReason::stop);
  EXPECT_EQ(embedded.last().embedding, (std::vector<float>{0, half, half, 0, 0, 0, 0, 0}));
  ASSERT_NE(scored.last().prompt_picks, nullptr);
  const std::vector<Pick>& picks = *scored.last().prompt_picks;
  ASSERT_EQ(picks.size(), 3u);
  EXPECT_NEAR(picks[1].log_probability, 0, 1e-6);
  EXPECT_NEAR(picks[2].log_probability, -50, 1e-3);
  ASSERT_EQ(picks[2].top.size(), 1u);
  EXPECT_EQ(picks[2].top[0].id, 3u);
}

TEST_F(EngineThreads, ShowMetrics) {
  start();
  EventLog log;
  thread_->submit(request(1, 12), log.callback());
  ASSERT_TRUE(log.wait_for_ends());
  Metrics metrics = thread_->metrics();
  EXPECT_EQ(metrics.submitted, 1u);
  EXPECT_EQ(metrics.generated, 12u);
  EXPECT_EQ(metrics.ended(FinishReason::length), 1u);
  EXPECT_EQ(metrics.prompt_tokens.sum(), 1);
  EXPECT_EQ(metrics.completion_tokens.sum(), 12);
}

TEST_F(EngineThreads, CountACompletionBeforeItsEnd) {
  start();
  Request counts = request(0, 20);
  counts.speculation = Speculation::on;
  counts.prompt = counted(0, counting_vocabulary + 10);  // all after it can be looked up, and is right
  for (uint64_t i = 1; i <= 300; ++i) {
    EventLog log;
    thread_->submit(counts, log.callback());
    ASSERT_TRUE(log.wait_for_ends());
    Metrics metrics = thread_->metrics();
    ASSERT_EQ(metrics.ended(FinishReason::length), i);
    ASSERT_EQ(metrics.generated, 20 * i);
    ASSERT_EQ(metrics.completion_tokens.sum(), 20. * double(i));
    ASSERT_EQ(metrics.accepted, metrics.proposed);
    ASSERT_EQ(metrics.proposed, thread_->metrics().proposed);  // none is counted later
  }
  EXPECT_GT(thread_->metrics().proposed, 0u);
}

TEST_F(EngineThreads, SleepWhenIdle) {
  start();
  EventLog log;
  thread_->submit(request(1, 3), log.callback());
  ASSERT_TRUE(log.wait_for_ends());
  std::this_thread::sleep_for(20ms);
  const std::clock_t before = std::clock();  // of all threads
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(double(std::clock() - before) / CLOCKS_PER_SEC, 0.05);
}

TEST_F(EngineThreads, AbortRatherThanWaitForever) {
  if (test::sanitized) GTEST_SKIP() << "the process ends without having freed its memory";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        start(0.1);
        Gate gate;
        thread_->submit(request(1, 5), [&](const Event&) { gate.wait(); });
        gate.wait_for_waiting(1);
        thread_.reset();
      },
      "callbacks of 1 requests have not returned for 0.1 seconds");
}

TEST(Deliveries, HaveOneThreadMoreThanCallbacksBlock) {
  Gate gate;
  Deliveries deliveries([](RequestId) {}, 30);
  EXPECT_EQ(deliveries.threads(), 1u);
  std::array<std::shared_ptr<Deliveries::Mailbox>, 10> boxes;
  for (auto& box : boxes) {
    box = deliveries.open([&](const Event&) { gate.wait(); });
    deliveries.post(box, {});
  }
  ASSERT_TRUE(gate.wait_for_waiting(10));
  EXPECT_EQ(deliveries.threads(), 11u);
  for (auto& box : boxes) deliveries.post(box, {});  // a second event takes no second thread
  EXPECT_EQ(deliveries.threads(), 11u);
  gate.open();
  for (int i = 0; i < 6000 && deliveries.threads() > 1; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(deliveries.threads(), 1u);
}

}  // namespace
}  // namespace heddle::engine

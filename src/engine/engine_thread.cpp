// Other threads leave submissions and ends, which the engine's thread handles between two steps. It alone uses the
// engine, and it never waits for a callback: events go to mailboxes, which other threads empty.
#include "engine/engine_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/sequence.h"

namespace heddle::engine {

class Deliveries::Mailbox {
 public:
  explicit Mailbox(OnEvent callback) : on_event(std::move(callback)) {}

  const OnEvent on_event;
  std::vector<Event> events;
  bool taken = false;  // in ready_, or with a thread
  bool threw = false;  // used by that thread only
};

Deliveries::Deliveries(std::function<void(RequestId)> threw, double patience)
    : threw_(std::move(threw)), patience_(patience) {
  const std::lock_guard lock(mutex_);
  start_thread();
}

Deliveries::~Deliveries() {
  std::unique_lock lock(mutex_);
  const auto all_done = [&] { return ready_.empty() && busy_ == 0; };
  for (uint64_t before = delivered_; !done_.wait_for(lock, std::chrono::duration<double>(patience_), all_done);
       before = delivered_) {
    if (delivered_ != before) continue;  // slow, but not stuck
    const std::string text = fmt::format(
        "heddle: callbacks of {} requests have not returned for {} seconds, and the objects they use are about to be "
        "destroyed: aborting\n",
        busy_, patience_);
    std::fputs(text.c_str(), stderr);
    std::abort();
  }
  ending_ = true;
  work_.notify_all();
  done_.wait(lock, [&] { return threads_.empty(); });
  join_gone();
}

std::shared_ptr<Deliveries::Mailbox> Deliveries::open(OnEvent on_event) {
  return std::make_shared<Mailbox>(std::move(on_event));
}

void Deliveries::post(const std::shared_ptr<Mailbox>& mailbox, Event event) {
  const std::lock_guard lock(mutex_);
  mailbox->events.push_back(std::move(event));
  if (mailbox->taken) return;
  mailbox->taken = true;
  ready_.push_back(mailbox);
  work_.notify_one();
}

size_t Deliveries::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void Deliveries::deliver() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (work_.wait_for(lock, std::chrono::seconds(1), [&] { return ending_ || !ready_.empty(); }))
      empty_one(lock);
    else if (idle_ > 1)
      break;
  }
  leave();
}

void Deliveries::empty_one(std::unique_lock<std::mutex>& lock) {
  if (ready_.empty()) return;
  const std::shared_ptr<Mailbox> mailbox = std::move(ready_.front());
  ready_.pop_front();
  std::vector<Event> events;
  events.swap(mailbox->events);
  --idle_;
  ++busy_;
  if (idle_ == 0) start_thread();
  if (!ready_.empty()) work_.notify_one();
  lock.unlock();
  for (const Event& event : events) call(*mailbox, event);
  lock.lock();
  --busy_;
  ++idle_;
  mailbox->taken = !mailbox->events.empty();
  if (mailbox->taken) ready_.push_back(mailbox);
  if (ready_.empty() && busy_ == 0) done_.notify_all();
}

void Deliveries::call(Mailbox& mailbox, const Event& event) {
  if (mailbox.threw && event.finish_reason == FinishReason::none) return;
  try {
    mailbox.on_event(event);
  } catch (...) {
    if (!mailbox.threw) threw_(event.request);
    mailbox.threw = true;
  }
  ++delivered_;
}

void Deliveries::start_thread() {
  join_gone();
  try {
    std::thread thread([this] { deliver(); });
    const std::thread::id id = thread.get_id();
    threads_.emplace(id, std::move(thread));
    ++idle_;
  } catch (const std::system_error&) {  // no more threads: mailboxes wait for the others
    if (threads_.empty()) throw;
  }
}

void Deliveries::leave() {
  --idle_;
  const auto self = threads_.find(std::this_thread::get_id());
  gone_.push_back(std::move(self->second));
  threads_.erase(self);
  done_.notify_all();
}

void Deliveries::join_gone() {
  for (std::thread& thread : gone_) thread.join();
  gone_.clear();
}

class EngineThread::State {
 public:
  State(Engine& engine, double patience) : engine_(engine), metrics_(engine.metrics()) {
    deliveries_ = std::make_unique<Deliveries>([this](RequestId id) { end(id); }, patience);
    thread_ = std::thread([this] { run(); });
  }

  void end_all() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    work_.notify_one();
    thread_.join();
    deliveries_.reset();
  }

  RequestId submit(Request request, OnEvent on_event, bool even_if_full) {
    try {
      std::unique_ptr<Task> task = engine_.prepare(std::move(request));
      const RequestId id = task->id;
      {
        const std::lock_guard lock(mutex_);
        if (ending_) throw Busy("the engine is shutting down");
        if (!stopped_.empty()) throw Stopped("{}", stopped_);
        if (!even_if_full) engine_.expect_room(queue_, task->request);
        queue_.add(task->request.client, task->request.n);
        ++not_counted_;
        submissions_.push_back({std::move(task), deliveries_->open(std::move(on_event))});
      }
      work_.notify_one();
      return id;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      ++refused_;
      throw;
    }
  }
  void end(RequestId id, std::optional<uint32_t> index = std::nullopt) {
    {
      const std::lock_guard lock(mutex_);
      ends_.push_back({id, index});
    }
    work_.notify_one();
  }
  uint32_t max_rows() const { return engine_.max_rows(); }
  Metrics metrics() const {
    const std::lock_guard lock(mutex_);
    Metrics metrics = metrics_;
    metrics.refused += refused_;
    metrics.waiting += not_counted_;
    return metrics;
  }
  std::string stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

 private:
  struct Submission {
    std::unique_ptr<Task> task;
    std::shared_ptr<Deliveries::Mailbox> mailbox;
  };
  struct RequestedEnd {
    RequestId id = 0;
    std::optional<uint32_t> index;  // of the completion to finish; unset: all are cancelled
  };
  struct Open {  // a request that has not ended
    std::shared_ptr<Deliveries::Mailbox> mailbox;
    std::vector<bool> ended;  // per completion
  };

  void run() {
    bool worked = true, ending = false;
    do {
      publish();
      std::vector<Submission> submissions;
      std::vector<RequestedEnd> ends;
      {
        std::unique_lock lock(mutex_);
        const auto has_work = [&] { return ending_ || !submissions_.empty() || !ends_.empty(); };
        if (open_.empty())
          save_until(lock, has_work);
        else if (!worked)
          work_.wait_for(lock, std::chrono::milliseconds(1), has_work);
        submissions.swap(submissions_);
        ends.swap(ends_);
        ending = ending_;
      }
      for (Submission& submission : submissions) take(submission);
      for (const auto& [id, index] : ends)
        if (open_.contains(id)) index ? engine_.finish(id, *index) : engine_.cancel(id);
      if (ending)
        for (const auto& [id, open] : open_) engine_.cancel(id);
      if (!open_.empty()) worked = step();
    } while (!ending || !open_.empty());
  }

  // Saves what the cache has, as long as there is nothing else to do.
  void save_until(std::unique_lock<std::mutex>& lock, auto&& has_work) {
    while (!has_work()) {
      lock.unlock();
      const Engine::Saving saving = broken_.empty() ? engine_.save_some() : Engine::Saving::done;
      lock.lock();
      if (saving == Engine::Saving::done) work_.wait(lock, has_work);
      if (saving == Engine::Saving::later) work_.wait_for(lock, std::chrono::milliseconds(20), has_work);
    }
  }

  // After a step; and before the end of a completion, so that the receiver of an end finds it counted.
  void publish() {
    const std::lock_guard lock(mutex_);
    metrics_ = engine_.metrics();
    queue_ = engine_.queue();
    for (const Submission& one : submissions_) queue_.add(one.task->request.client, one.task->request.n);
    not_counted_ = submissions_.size();
    stopped_ = broken_.empty() ? engine_.stopped() : broken_;
  }

  void take(Submission& submission) {
    const RequestId id = submission.task->id;
    Open open{std::move(submission.mailbox), std::vector<bool>(submission.task->request.n)};
    try {
      if (!broken_.empty()) throw Stopped("{}", broken_);
      engine_.take(std::move(submission.task), [this](const Event& event) { post(event); });
      open_[id] = std::move(open);
    } catch (const Stopped& error) {
      fail(id, open, error.what());
    }
  }

  void fail(RequestId id, const Open& open, const std::string& reason) {
    for (uint32_t index = 0; index < open.ended.size(); ++index)
      if (!open.ended[index])
        deliveries_->post(open.mailbox,
                          {.request = id, .index = index, .finish_reason = FinishReason::failed, .reason = reason});
  }

  bool step() {
    try {
      const bool worked = engine_.step();
      check(open_.empty() || !engine_.idle(), "an idle engine has ended every request");
      return worked;
    } catch (const std::exception& error) {  // a bug in the engine: its state cannot be trusted
      broken_ = fmt::format("the engine has stopped: {}", error.what());
    }
    publish();
    const auto open = std::move(open_);
    for (const auto& [id, request] : open) fail(id, request, broken_);
    open_.clear();
    return false;
  }

  void post(const Event& event) {
    const auto found = open_.find(event.request);
    check(found != open_.end() && event.index < found->second.ended.size(), "events come for open requests");
    Open& open = found->second;
    check(!open.ended[event.index], "a completion ends once, after all its tokens");
    if (event.finish_reason != FinishReason::none) publish();
    deliveries_->post(open.mailbox, event);
    if (event.finish_reason == FinishReason::none) return;
    open.ended[event.index] = true;
    if (std::find(open.ended.begin(), open.ended.end(), false) == open.ended.end()) open_.erase(found);
  }

  Engine& engine_;
  std::unique_ptr<Deliveries> deliveries_;
  // Used by the engine's thread only.
  std::map<RequestId, Open> open_;
  std::string broken_;  // why the engine cannot be trusted; empty: it can

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable work_;
  std::vector<Submission> submissions_;
  std::vector<RequestedEnd> ends_;
  Metrics metrics_;
  Queue queue_;             // with what arrived since
  size_t not_counted_ = 0;  // requests that arrived after these metrics
  uint64_t refused_ = 0;
  std::string stopped_;
  bool ending_ = false;
  std::thread thread_;
};

EngineThread::EngineThread(Engine& engine, double patience) : state_(std::make_unique<State>(engine, patience)) {}
EngineThread::~EngineThread() { state_->end_all(); }

RequestId EngineThread::submit(Request request, OnEvent on_event, bool even_if_full) {
  return state_->submit(std::move(request), std::move(on_event), even_if_full);
}
void EngineThread::cancel(RequestId id) { state_->end(id); }
void EngineThread::finish(RequestId id, uint32_t index) { state_->end(id, index); }
uint32_t EngineThread::max_rows() const { return state_->max_rows(); }
Metrics EngineThread::metrics() const { return state_->metrics(); }
std::string EngineThread::stopped() const { return state_->stopped(); }

}  // namespace heddle::engine

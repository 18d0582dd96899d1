// Other threads leave submissions and ends, which the engine's thread handles between two steps. It alone uses the
// engine, and it never waits for a callback.
#include "engine/engine_thread.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/deliveries.h"
#include "engine/sequence.h"

namespace heddle::engine {

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
        if (ending_) throw Busy("the engine is about to end");
        if (!stopped_.empty()) throw Stopped("{}", stopped_);
        if (!even_if_full) engine_.expect_room(metrics_.waiting + not_counted_);
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
      std::vector<Submission> submissions;
      std::vector<RequestedEnd> ends;
      {
        std::unique_lock lock(mutex_);
        metrics_ = engine_.metrics();
        not_counted_ = submissions_.size();
        stopped_ = broken_.empty() ? engine_.stopped() : broken_;
        const auto has_work = [&] { return ending_ || !submissions_.empty() || !ends_.empty(); };
        if (open_.empty())
          work_.wait(lock, has_work);
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
      check(open_.empty() || !engine_.idle(), "the end of every request");
      return worked;
    } catch (const std::exception& error) {  // a bug of the engine: its state cannot be trusted
      broken_ = fmt::format("the engine has stopped: {}", error.what());
    }
    const auto open = std::move(open_);
    for (const auto& [id, request] : open) fail(id, request, broken_);
    open_.clear();
    return false;
  }

  void post(const Event& event) {
    const auto found = open_.find(event.request);
    check(found != open_.end() && event.index < found->second.ended.size(), "an event of an open request");
    Open& open = found->second;
    check(!open.ended[event.index], "one end of each completion, after all its tokens");
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
Metrics EngineThread::metrics() const { return state_->metrics(); }
std::string EngineThread::stopped() const { return state_->stopped(); }

}  // namespace heddle::engine

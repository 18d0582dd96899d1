// The engine's thread does what others ask for between two steps. It alone touches the engine, and it never waits for a
// callback.
#include "engine/engine_thread.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "engine/deliveries.h"

namespace heddle::engine {

class EngineThread::State {
 public:
  State(Engine& engine, double patience) : engine_(engine), metrics_(engine.metrics()) {
    deliveries_ = std::make_unique<Deliveries>([this](RequestId id) { cancel(id); }, patience);
    thread_ = std::thread([this] { run(); });
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    work_.notify_one();
    thread_.join();
    deliveries_.reset();
  }

  RequestId submit(Request request, OnEvent on_event) {
    std::future<RequestId> taken;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) throw Busy("the engine is about to end");
      submissions_.push_back({std::move(request), std::move(on_event), {}});
      taken = submissions_.back().taken.get_future();
    }
    work_.notify_one();
    return taken.get();
  }
  void cancel(RequestId id) {
    {
      const std::lock_guard lock(mutex_);
      cancels_.push_back(id);
    }
    work_.notify_one();
  }
  Metrics metrics() const {
    const std::lock_guard lock(mutex_);
    return metrics_;
  }

 private:
  struct Submission {
    Request request;
    OnEvent on_event;
    std::promise<RequestId> taken;
  };
  struct Open {  // a request that has not ended
    std::shared_ptr<Deliveries::Mailbox> mailbox;
    std::vector<bool> ended;  // per copy
  };

  void run() {
    bool worked = true, ending = false;
    do {
      std::vector<Submission> submissions;
      std::vector<RequestId> cancels;
      {
        std::unique_lock lock(mutex_);
        metrics_ = engine_.metrics();
        const auto asked = [&] { return ending_ || !submissions_.empty() || !cancels_.empty(); };
        if (open_.empty())
          work_.wait(lock, asked);
        else if (!worked)
          work_.wait_for(lock, std::chrono::milliseconds(1), asked);
        submissions.swap(submissions_);
        cancels.swap(cancels_);
        ending = ending_;
      }
      for (Submission& submission : submissions) take(submission);
      for (const RequestId id : cancels)
        if (open_.contains(id)) engine_.cancel(id);
      if (ending)
        for (const auto& [id, open] : open_) engine_.cancel(id);
      if (!open_.empty()) worked = step();
    } while (!ending || !open_.empty());
  }

  void take(Submission& submission) {
    try {
      if (!broken_.empty()) throw Error("{}", broken_);
      const uint32_t copies = submission.request.copies;
      auto mailbox = deliveries_->open(std::move(submission.on_event));
      const RequestId id = engine_.submit(std::move(submission.request), [this](const Event& event) { tell(event); });
      open_[id] = {std::move(mailbox), std::vector<bool>(copies)};
      submission.taken.set_value(id);
    } catch (...) {
      submission.taken.set_exception(std::current_exception());
    }
  }

  bool step() {
    try {
      const bool worked = engine_.step();
      check(open_.empty() || !engine_.idle(), "every request is told its end");
      return worked;
    } catch (const std::exception& error) {  // a bug of ours: nothing can be trusted any more
      broken_ = fmt::format("the engine has stopped: {}", error.what());
    }
    const auto open = std::move(open_);
    for (const auto& [id, request] : open)
      for (uint32_t copy = 0; copy < request.ended.size(); ++copy)
        if (!request.ended[copy])
          deliveries_->post(request.mailbox,
                            {.request = id, .copy = copy, .ending = Ending::failed, .reason = broken_});
    open_.clear();
    return false;
  }

  void tell(const Event& event) {
    const auto found = open_.find(event.request);
    check(found != open_.end() && event.copy < found->second.ended.size(), "an event of a request that is there");
    Open& open = found->second;
    check(!open.ended[event.copy], "one end of each copy, the last of its events");
    deliveries_->post(open.mailbox, event);
    if (event.ending == Ending::none) return;
    open.ended[event.copy] = true;
    if (std::find(open.ended.begin(), open.ended.end(), false) == open.ended.end()) open_.erase(found);
  }

  Engine& engine_;
  std::unique_ptr<Deliveries> deliveries_;
  // For the engine's thread alone.
  std::map<RequestId, Open> open_;
  std::string broken_;  // why nothing is done any more

  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable work_;
  std::vector<Submission> submissions_;
  std::vector<RequestId> cancels_;
  Metrics metrics_;
  bool ending_ = false;
  std::thread thread_;
};

EngineThread::EngineThread(Engine& engine, double patience) : state_(std::make_unique<State>(engine, patience)) {}
EngineThread::~EngineThread() { state_->end(); }

RequestId EngineThread::submit(Request request, OnEvent on_event) {
  return state_->submit(std::move(request), std::move(on_event));
}
void EngineThread::cancel(RequestId id) { state_->cancel(id); }
Metrics EngineThread::metrics() const { return state_->metrics(); }

}  // namespace heddle::engine

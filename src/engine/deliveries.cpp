// Before a thread runs a callback, it makes sure that another one waits for work.
#include "engine/deliveries.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>

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
        "heddle: callbacks of {} requests have not returned for {} seconds, and what they use is about to be "
        "destroyed: abort\n",
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

}  // namespace heddle::engine

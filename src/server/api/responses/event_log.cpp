// Readers are written to under the lock, so that each gets every event once and in order. A reader that has
// disconnected is noticed with the next event: the exchange remembers it.
#include "server/api/responses/event_log.h"

#include <utility>

#include "server/service/exchange.h"

namespace heddle::server {

void EventLog::append(std::string_view event) {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  drop_gone();
  for (const auto& reader : readers_) reader->write(std::string(event));
  if (forgotten_) return;
  const size_t bytes = event.size() + sizeof(size_t);
  if (budget_->used.fetch_add(bytes) + bytes > budget_->limit) {
    budget_->used -= bytes;
    return forget();
  }
  begins_.push_back(text_.size());
  text_ += event;
}

void EventLog::forget() {
  forgotten_ = true;
  budget_->used -= size();
  text_ = {};
  begins_ = {};
}

void EventLog::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  budget_->used -= size();
  drop_gone();
  for (const auto& reader : readers_) reader->finish();
  readers_.clear();
}

bool EventLog::attach(std::shared_ptr<Exchange> reader, std::optional<uint64_t> after) {
  const std::lock_guard lock(mutex_);
  if (forgotten_) return false;
  const uint64_t first = after ? *after + 1 : 0;
  reader->start_events(first < begins_.size() ? text_.substr(begins_[first]) : std::string());
  if (finished_) {
    reader->finish();
    return true;
  }
  drop_gone();
  readers_.push_back(std::move(reader));
  return true;
}

void EventLog::drop_gone() {
  std::erase_if(readers_, [](const std::shared_ptr<Exchange>& reader) {
    const bool gone = reader->cancelled() == Cancelled::client_gone;
    if (gone) reader->end_cancelled();
    return gone;
  });
}

size_t EventLog::bytes() const {
  const std::lock_guard lock(mutex_);
  return size();
}

bool EventLog::is_whole() const {
  const std::lock_guard lock(mutex_);
  return !forgotten_;
}

}  // namespace heddle::server

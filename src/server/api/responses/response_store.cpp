#include "server/api/responses/response_store.h"

namespace heddle::server {

size_t StoredResponse::bytes() const {
  size_t sum = sizeof *this + id.size() + json.size() + messages.size() + event_bytes;
  for (const auto* items : {&input, &output})
    for (const ResponseItem& item : *items) sum += sizeof item + 2 * item.id.size() + item.json.size();
  return sum;
}

void ResponseStore::begin(const std::string& id, std::string json, std::function<void()> cancel,
                          std::shared_ptr<EventLog> events) {
  const std::lock_guard lock(mutex_);
  in_progress_[id] = {std::move(json), std::move(cancel), std::move(events)};
}

void ResponseStore::end(const std::string& id) {
  const std::lock_guard lock(mutex_);
  in_progress_.erase(id);
}

std::optional<std::string> ResponseStore::in_progress(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = in_progress_.find(id);
  return found == in_progress_.end() ? std::nullopt : std::optional(found->second.json);
}

std::shared_ptr<EventLog> ResponseStore::events(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = in_progress_.find(id); found != in_progress_.end()) return found->second.events;
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : (*found->second)->events;
}

bool ResponseStore::cancel(const std::string& id) {
  std::function<void()> cancel;
  {
    const std::lock_guard lock(mutex_);
    const auto found = in_progress_.find(id);
    if (found == in_progress_.end()) return false;
    cancel = found->second.cancel;
  }
  cancel();  // without the lock: it may end the response at once
  return true;
}

void ResponseStore::add(StoredResponse response) {
  const size_t size = response.bytes();
  const std::lock_guard lock(mutex_);
  if (size > limits_.bytes || limits_.responses == 0) return;
  if (const auto old = places_.find(response.id); old != places_.end()) forget(old->second);
  while (!order_.empty() && (bytes_ + size > limits_.bytes || order_.size() >= limits_.responses))
    forget(order_.begin());
  order_.push_back(std::make_shared<const StoredResponse>(std::move(response)));
  const StoredResponse& added = *order_.back();
  places_[added.id] = std::prev(order_.end());
  for (const auto* items : {&added.input, &added.output})
    for (const ResponseItem& item : *items) items_[item.id] = {&added, &item};
  bytes_ += size;
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  return found == places_.end() ? nullptr : *found->second;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(id);
  if (found == places_.end()) return false;
  forget(found->second);
  return true;
}

std::optional<std::string> ResponseStore::item(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(id);
  return found == items_.end() ? std::nullopt : std::optional(found->second.item->json);
}

size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::forget(Order::iterator place) {
  const StoredResponse& response = **place;
  for (const auto* items : {&response.input, &response.output})
    for (const ResponseItem& item : *items)
      if (const auto found = items_.find(item.id); found != items_.end() && found->second.response == &response)
        items_.erase(found);
  bytes_ -= response.bytes();
  places_.erase(response.id);
  order_.erase(place);
}

}  // namespace heddle::server

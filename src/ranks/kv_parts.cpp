#include "ranks/kv_parts.h"

#include <chrono>

namespace heddle::ranks {
namespace {

constexpr std::array all_parts{model::KvPart::block, model::KvPart::window, model::KvPart::state};
constexpr std::chrono::seconds longest_wait_for_room{5};

}  // namespace

PartSizes part_sizes(const model::Backend& backend) {
  PartSizes sizes{};
  for (const model::KvPart part : all_parts) sizes[size_t(part)] = backend.kv_part_bytes(part);
  return sizes;
}

PartSizes largest_part_sizes(const PartSizes& own, Group& group) {
  const std::vector<uint64_t> smallest = group.smallest({~own[0], ~own[1], ~own[2]});
  return {~smallest[0], ~smallest[1], ~smallest[2]};
}

uint64_t PartNumbers::number(const uint8_t* buffer) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = numbers_.try_emplace(buffer, last_ + 1);
  last_ += is_new;
  return entry->second;
}

std::optional<uint64_t> PartNumbers::find(const uint8_t* buffer) const {
  const std::lock_guard lock(mutex_);
  const auto found = numbers_.find(buffer);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void PartNumbers::drop(const uint8_t* buffer) {
  const std::lock_guard lock(mutex_);
  const auto found = numbers_.find(buffer);
  if (found == numbers_.end()) return;
  dropped_.push_back(found->second);
  numbers_.erase(found);
}

void PartNumbers::send_dropped(Group& group) {
  Bytes bytes;
  {
    const std::lock_guard lock(mutex_);
    if (dropped_.empty()) return;
    encode_numbers(dropped_, bytes);
    dropped_.clear();
  }
  group.send(Message::Kind::drop_kv, bytes);
}

void PartBuffers::put(uint64_t number, Buffer buffer) {
  const std::lock_guard lock(mutex_);
  check(buffer && !buffers_.contains(number), "a number that is new");
  bytes_ += buffer->size();
  buffers_.emplace(number, std::move(buffer));
  changed_.notify_all();
}

PartBuffers::Buffer PartBuffers::find(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(number);
  return found == buffers_.end() ? nullptr : found->second;
}

PartBuffers::Buffer PartBuffers::wait_for(uint64_t number) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ || buffers_.contains(number); });
  const auto found = buffers_.find(number);
  return found == buffers_.end() ? nullptr : found->second;
}

void PartBuffers::drop(uint64_t number) {
  Buffer last;  // is freed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(number);
  if (found == buffers_.end()) return;  // it could not be loaded
  last = std::move(found->second);
  bytes_ -= last->size();
  buffers_.erase(found);
  changed_.notify_all();
}

void PartBuffers::wait_for_room(uint64_t bytes) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, longest_wait_for_room, [&] { return ended_ || bytes_ + bytes <= capacity_; });
}

void PartBuffers::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

uint64_t PartBuffers::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void encode_orders(std::span<const PartOrder> orders, Bytes& bytes) {
  ByteWriter writer(bytes);
  for (const auto& [place, number] : orders) {
    writer.number(uint64_t(place.part));
    writer.number(place.index);
    writer.number(number);
  }
}

std::vector<PartOrder> decode_orders(std::span<const uint8_t> bytes, const model::Limits& limits) {
  std::vector<PartOrder> orders;
  for (ByteReader reader(bytes); reader.left() > 0;) {
    const auto part = model::KvPart(reader.number(all_parts.size() - 1, "part of a cache"));
    const uint32_t index = reader.number32(), count = model::places_of(part, limits);
    if (index >= count) throw Error("message of a rank: expected one of {} places, found {}", count, index);
    orders.push_back({{part, index}, reader.number()});
  }
  return orders;
}

void encode_numbers(std::span<const uint64_t> numbers, Bytes& bytes) {
  ByteWriter writer(bytes);
  for (const uint64_t number : numbers) writer.number(number);
}

std::vector<uint64_t> decode_numbers(std::span<const uint8_t> bytes) {
  std::vector<uint64_t> numbers;
  for (ByteReader reader(bytes); reader.left() > 0;) numbers.push_back(reader.number());
  return numbers;
}

}  // namespace heddle::ranks

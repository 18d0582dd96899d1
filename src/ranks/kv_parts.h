// Parts of the KV cache in the memory of every rank. Rank 0 decides what is kept: each of its buffers has a number, and
// under that number every other rank has its own part of the same block.
#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "model/backend.h"
#include "ranks/group.h"

namespace heddle::ranks {

using PartSizes = std::array<uint64_t, 3>;  // bytes, by model::KvPart
PartSizes part_sizes(const model::Backend& backend);
// The largest of all ranks: rank 0 counts with them, so that no rank keeps more than it does. All ranks call it.
PartSizes largest_part_sizes(const PartSizes& own, Group& group);

// Of rank 0: the numbers of its buffers, which are never used again. All calls from any thread.
class PartNumbers {
 public:
  uint64_t number(const uint8_t* buffer);                     // a new one, unless it has one
  std::optional<uint64_t> find(const uint8_t* buffer) const;  // unset: it has none
  void drop(const uint8_t* buffer);                           // before its memory is freed
  void send_dropped(Group& group);                            // those since it was last called

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const uint8_t*, uint64_t> numbers_;
  std::vector<uint64_t> dropped_;
  uint64_t last_ = 0;
};

// Of another rank. All calls from any thread.
class PartBuffers {
 public:
  using Buffer = std::shared_ptr<Bytes>;

  // `capacity`: bytes that rank 0 keeps to.
  explicit PartBuffers(uint64_t capacity = UINT64_MAX) : capacity_(capacity) {}

  void put(uint64_t number, Buffer buffer);
  Buffer find(uint64_t number) const;  // null: there is none
  // The same, but waits until rank 0's order to read it was carried out. Null after end().
  Buffer wait_for(uint64_t number) const;
  void drop(uint64_t number);
  // Waits until these bytes fit below the capacity, for up to 5 s: what rank 0 has dropped for them is
  // dropped here after the batch that is being computed.
  void wait_for_room(uint64_t bytes) const;
  void end();  // ends all waits
  uint64_t bytes() const;

 private:
  const uint64_t capacity_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<uint64_t, Buffer> buffers_;
  uint64_t bytes_ = 0;
  bool ended_ = false;
};

// Orders of rank 0 in the stream of batches: places of the cache, each with the number of a buffer.
struct PartOrder {
  model::KvPlace place;
  uint64_t number;
};
void encode_orders(std::span<const PartOrder> orders, Bytes& bytes);
// Throws an Error unless they are places of these limits.
std::vector<PartOrder> decode_orders(std::span<const uint8_t> bytes, const model::Limits& limits);
void encode_numbers(std::span<const uint64_t> numbers, Bytes& bytes);
std::vector<uint64_t> decode_numbers(std::span<const uint8_t> bytes);

}  // namespace heddle::ranks

// Memory for parts of a KV cache. What is given back is kept for parts of the same size: pages of new memory are filled
// with zeros by the system first, which takes longer than copying.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace heddle::tiers {

// Called from any thread. Memory that others hold outlives it.
class PartMemory {
 public:
  // `capacity`: bytes in use and kept.
  explicit PartMemory(uint64_t capacity) : capacity_(capacity) {}
  ~PartMemory();
  PartMemory(const PartMemory&) = delete;
  PartMemory& operator=(const PartMemory&) = delete;

  // Null: the capacity is in use, or the system has no more.
  uint8_t* take(uint64_t bytes);
  void give_back(uint8_t* data, uint64_t bytes);
  bool has_room(uint64_t bytes) const;
  uint64_t used() const;

 private:
  void drop_spare();

  const uint64_t capacity_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0, kept_ = 0;                               // bytes
  std::unordered_map<uint64_t, std::vector<uint8_t*>> spare_;  // by size
};

}  // namespace heddle::tiers

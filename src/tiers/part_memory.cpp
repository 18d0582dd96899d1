#include "tiers/part_memory.h"

#include <sys/mman.h>

#include "base/error.h"

namespace heddle::tiers {
namespace {

uint8_t* map(uint64_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  ::madvise(data, bytes, MADV_HUGEPAGE);  // fewer faults, where the system has such pages
  return static_cast<uint8_t*>(data);
}

}  // namespace

PartMemory::~PartMemory() { drop_spare(); }

bool PartMemory::has_room(uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return used_ + bytes <= capacity_;
}

uint64_t PartMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

uint8_t* PartMemory::take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (used_ + bytes > capacity_) return nullptr;
  uint8_t* data = nullptr;
  if (std::vector<uint8_t*>& fitting = spare_[bytes]; !fitting.empty()) {
    data = fitting.back();
    fitting.pop_back();
    kept_ -= bytes;
  } else {
    if (used_ + kept_ + bytes > capacity_) drop_spare();
    data = map(bytes);
  }
  if (data) used_ += bytes;
  return data;
}

void PartMemory::give_back(uint8_t* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  spare_[bytes].push_back(data);
  used_ -= bytes;
  kept_ += bytes;
}

void PartMemory::drop_spare() {
  for (auto& [bytes, list] : spare_)
    for (uint8_t* data : list) ::munmap(data, bytes);
  spare_.clear();
  kept_ = 0;
}

}  // namespace heddle::tiers

// Mappings: memory straight from the system, and files that return their pages once they were read.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/processors.h"

namespace heddle::cpu {

// Zeros, which take no memory until they are written to.
class Pages {
 public:
  enum class Size {
    usual,
    large,  // fewer misses of the page table, but touching one byte takes 2 MB; less than that is as usual
  };
  Pages() = default;
  explicit Pages(uint64_t bytes, Size size = Size::usual);  // an Error if the system refuses
  ~Pages();
  Pages(Pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // Pages that are not written to yet will be interleaved across these nodes. A container may refuse that: then each
  // lies on the node of the thread that writes to it first.
  void interleave(const std::vector<Node>& nodes);
  // Of those that were written to, the bytes that the system has put into large pages.
  uint64_t bytes_in_large_pages() const;

 private:
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// The files that are mapped when it is constructed.
class FileMappings {
 public:
  FileMappings();
  // Gives pages back to the system: they were read and will not be read again. Memory that is no file mapping (a test's
  // own, converted weights) is left alone.
  void release(std::span<const uint8_t> range) const;

 private:
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // addresses of private mappings that are not written to
};

}  // namespace heddle::cpu

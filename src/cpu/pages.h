// Memory straight from the system: zeros, and not there until it is touched.
#pragma once
#include <cstdint>
#include <utility>

namespace heddle::cpu {

class Pages {
 public:
  Pages() = default;
  enum class Size {
    usual,
    large
  };  // large: fewer misses of the page table, but 2 MB are there when one byte is touched
  explicit Pages(uint64_t bytes, Size size = Size::usual);  // an Error if there is not so much
  ~Pages();
  Pages(Pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace heddle::cpu

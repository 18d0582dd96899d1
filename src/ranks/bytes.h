// Numbers as bytes: small ones take few, and equal ones in a row take one entry.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace heddle::ranks {

using Bytes = std::vector<uint8_t>;

inline uint64_t zigzag(int64_t value) { return (uint64_t(value) << 1) ^ uint64_t(value >> 63); }
inline int64_t from_zigzag(uint64_t value) { return int64_t(value >> 1) ^ -int64_t(value & 1); }

class ByteWriter {
 public:
  explicit ByteWriter(Bytes& to) : to_(to) {}

  void number(uint64_t value) {  // 7 bits in a byte, the lowest first
    for (; value >= 128; value >>= 7) to_.push_back(uint8_t(value | 128));
    to_.push_back(uint8_t(value));
  }
  void difference(uint64_t value, uint64_t from) { number(zigzag(int64_t(value - from))); }
  void raw(auto value) {
    uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    to_.insert(to_.end(), bytes, bytes + sizeof value);
  }
  // `at(i)` for all i below count, as runs of equal numbers. The count is not written.
  void runs(size_t count, auto&& at) {
    for (size_t i = 0; i < count;) {
      const uint64_t value = at(i);
      size_t next = i + 1;
      while (next < count && at(next) == value) ++next;
      number(value);
      number(next - i);
      i = next;
    }
  }

 private:
  Bytes& to_;
};

// Throws an Error where the bytes are not what a ByteWriter writes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = next();
      if (shift == 63 && byte > 1) break;
      value |= uint64_t(byte & 127) << shift;
      if (!(byte & 128)) return value;
    }
    throw Error("message of a rank: expected a number, found more than 64 bits");
  }
  uint64_t number(uint64_t max, const char* what) {
    const uint64_t value = number();
    if (value > max) throw Error("message of a rank: {}: expected up to {}, found {}", what, max, value);
    return value;
  }
  uint32_t number32() { return uint32_t(number(UINT32_MAX, "a number of 32 bits")); }
  uint32_t difference(uint64_t from) {  // modulo 2^32, as positions and ids are
    return uint32_t(from + uint64_t(from_zigzag(number())));
  }
  template <class T>
  T raw() {
    if (bytes_.size() < sizeof(T)) end();
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  // take(i, value) for all i below count.
  void runs(size_t count, auto&& take) {
    for (size_t i = 0; i < count;) {
      const uint64_t value = number(), length = number();
      if (length == 0 || length > count - i)
        throw Error("message of a rank: expected a run of 1 to {}, found {}", count - i, length);
      for (uint64_t end = i + length; i < end; ++i) take(i, value);
    }
  }
  size_t left() const { return bytes_.size(); }
  std::span<const uint8_t> rest() const { return bytes_; }
  void expect_end() const {
    if (!bytes_.empty()) throw Error("message of a rank: expected its end, found {} more bytes", bytes_.size());
  }

 private:
  uint8_t next() {
    if (bytes_.empty()) end();
    const uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  [[noreturn]] static void end() { throw Error("message of a rank: expected more bytes, found its end"); }
  std::span<const uint8_t> bytes_;
};

}  // namespace heddle::ranks

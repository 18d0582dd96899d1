// A tensor map: what a bulk tensor copy needs to know about a tensor in global memory. The driver makes the real
// ones (opaque, 128 bytes); the interpreter reads the form that `interpreter_map` makes, in the same 128 bytes.
#pragma once
#include <array>
#include <cstring>

#include "ptx/types.h"

namespace heddle::ptx {

// Passed to a kernel by value, as a member of its Args.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> words{};
};

// How 16-byte chunks are permuted inside rows of 32, 64 or 128 bytes, so that columns do not share a bank.
enum class Swizzle : uint8_t { none, b32, b64, b128 };

// Where a byte of a swizzled tile lies: the bits of the 16-byte chunk index are xored with those of the row.
constexpr uint32_t swizzled(Swizzle s, uint32_t address) {
  switch (s) {
    case Swizzle::none:
      return address;
    case Swizzle::b32:
      return address ^ (address >> 3 & 0x10);
    case Swizzle::b64:
      return address ^ (address >> 3 & 0x30);
    case Swizzle::b128:
      return address ^ (address >> 3 & 0x70);
  }
  return address;
}

// Dimension 0 is the contiguous one.
struct TensorMapSpec {
  Type type = Type::f32;             // of an element
  uint32_t rank = 1;                 // 1 to 5
  uint64_t address = 0;              // 16-byte aligned
  std::array<uint64_t, 5> size{};    // elements
  std::array<uint64_t, 5> stride{};  // bytes between neighbours in dimension i (i >= 1), multiples of 16
  std::array<uint32_t, 5> box{};     // elements copied at once, each 1 to 256
  Swizzle swizzle = Swizzle::none;
};

inline TensorMap interpreter_map(const TensorMapSpec& spec) {
  static_assert(sizeof(TensorMapSpec) <= sizeof(TensorMap));
  TensorMap map;
  std::memcpy(map.words.data(), &spec, sizeof spec);
  return map;
}

}  // namespace heddle::ptx

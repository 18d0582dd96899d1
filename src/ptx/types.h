// The types a kernel can name: the enum the IR stores, the C++ type each stands for, and their sizes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/f16.h"

namespace heddle::ptx {

// Two halves in one 32-bit register; `lo` sits in the low 16 bits and at the lower address.
struct f16x2 {
  uint32_t bits;
  bool operator==(const f16x2&) const = default;
};
struct bf16x2 {
  uint32_t bits;
  bool operator==(const bf16x2&) const = default;
};
// Two fp8 values in one 16-bit register.
struct e4m3x2 {
  uint16_t bits;
  bool operator==(const e4m3x2&) const = default;
};
struct e5m2x2 {
  uint16_t bits;
  bool operator==(const e5m2x2&) const = default;
};
// An f32 whose low 13 bits the matrix unit ignores.
struct tf32 {
  uint32_t bits;
  bool operator==(const tf32&) const = default;
};

// An address in device memory, as the host passes it to a kernel.
template <class T>
struct DevicePtr {
  uint64_t address = 0;
};

enum class Type : uint8_t {
  none,
  pred,
  u8,
  s8,  // in memory and in matrix fragments; a register holds them widened to 32 bits
  u16,
  s16,
  u32,
  s32,
  u64,
  s64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64,
  tf32,
  e4m3x2,
  e5m2x2,
  e4m3,
  e5m2,  // in matrix fragments only
};

template <class T>
inline constexpr Type type_of = Type::none;
template <>
inline constexpr Type type_of<bool> = Type::pred;
template <>
inline constexpr Type type_of<uint8_t> = Type::u8;
template <>
inline constexpr Type type_of<int8_t> = Type::s8;
template <>
inline constexpr Type type_of<uint16_t> = Type::u16;
template <>
inline constexpr Type type_of<int16_t> = Type::s16;
template <>
inline constexpr Type type_of<uint32_t> = Type::u32;
template <>
inline constexpr Type type_of<int32_t> = Type::s32;
template <>
inline constexpr Type type_of<uint64_t> = Type::u64;
template <>
inline constexpr Type type_of<int64_t> = Type::s64;
template <>
inline constexpr Type type_of<heddle::f16> = Type::f16;
template <>
inline constexpr Type type_of<heddle::bf16> = Type::bf16;
template <>
inline constexpr Type type_of<f16x2> = Type::f16x2;
template <>
inline constexpr Type type_of<bf16x2> = Type::bf16x2;
template <>
inline constexpr Type type_of<float> = Type::f32;
template <>
inline constexpr Type type_of<double> = Type::f64;
template <>
inline constexpr Type type_of<tf32> = Type::tf32;
template <>
inline constexpr Type type_of<e4m3x2> = Type::e4m3x2;
template <>
inline constexpr Type type_of<e5m2x2> = Type::e5m2x2;
template <>
inline constexpr Type type_of<heddle::e4m3> = Type::e4m3;
template <>
inline constexpr Type type_of<heddle::e5m2> = Type::e5m2;

constexpr bool is_float(Type t) { return t >= Type::f16 && t <= Type::f64; }  // with the packed pairs
constexpr bool is_packed(Type t) { return t == Type::f16x2 || t == Type::bf16x2; }
constexpr bool is_signed(Type t) { return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64; }
constexpr bool is_integer(Type t) { return t >= Type::u8 && t <= Type::s64; }

// Bytes in memory (pred: none).
constexpr uint32_t size_of(Type t) {
  switch (t) {
    case Type::none:
    case Type::pred:
      return 0;
    case Type::u8:
    case Type::s8:
    case Type::e4m3:
    case Type::e5m2:
      return 1;
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
    case Type::e4m3x2:
    case Type::e5m2x2:
      return 2;
    case Type::u32:
    case Type::s32:
    case Type::f16x2:
    case Type::bf16x2:
    case Type::f32:
    case Type::tf32:
      return 4;
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return 8;
  }
  return 0;
}
// Bytes of the register that holds a value: an 8-bit value lives in a 32-bit register.
constexpr uint32_t register_bytes(Type t) { return size_of(t) == 1 ? 4 : size_of(t); }

const char* name(Type t);  // "u32", "f16x2", ... (PTX spelling)

}  // namespace heddle::ptx

#include "ptx/machine/matrix_numbers.h"

#include <cstring>

#include "base/f16.h"

namespace heddle::ptx::machine {

namespace {

template <class T, class F>
void decode_each(const void* elements, uint32_t count, double* to, uint32_t step, F value) {
  const auto* from = static_cast<const uint8_t*>(elements);
  for (uint32_t i = 0; i < count; ++i) {
    T x;
    std::memcpy(&x, from + i * sizeof(T), sizeof(T));
    to[i * step] = value(x);
  }
}

// All codes of an 8-bit format.
template <class T>
std::array<float, 256> values_of() {
  std::array<float, 256> v;
  for (uint32_t i = 0; i < 256; ++i) v[i] = to_f32(T{uint8_t(i)});
  return v;
}

// The one NaN the matrix units give.
float rounded(double x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : float(x); }

}  // namespace

void decode(Type type, const void* elements, uint32_t count, double* to, uint32_t step) {
  static const std::array<float, 256> e4m3_values = values_of<e4m3>(), e5m2_values = values_of<e5m2>();
  switch (type) {
    case Type::f16:
      return decode_each<f16>(elements, count, to, step, [](f16 x) { return to_f32(x); });
    case Type::bf16:
      return decode_each<bf16>(elements, count, to, step, [](bf16 x) { return to_f32(x); });
    case Type::tf32:
      return decode_each<uint32_t>(elements, count, to, step,
                                   [](uint32_t x) { return std::bit_cast<float>(x & ~0x1fffu); });
    case Type::e4m3:
      return decode_each<uint8_t>(elements, count, to, step, [](uint8_t x) { return e4m3_values[x]; });
    case Type::e5m2:
      return decode_each<uint8_t>(elements, count, to, step, [](uint8_t x) { return e5m2_values[x]; });
    case Type::s8:
      return decode_each<int8_t>(elements, count, to, step, [](int8_t x) { return x; });
    case Type::u8:
      return decode_each<uint8_t>(elements, count, to, step, [](uint8_t x) { return x; });
    default:
      check(false, "a type that no matrix unit multiplies");
  }
}

void multiply(uint32_t m, uint32_t n, uint32_t k, const double* a, const double* b, double* sum) {
  for (uint32_t row = 0; row < m; row += 4)
    for (uint32_t col = 0; col < n; col += 8) {
      double part[4][8];  // stays in registers over all of k
      for (uint32_t r = 0; r < 4; ++r) std::memcpy(part[r], sum + (row + r) * n + col, sizeof part[r]);
      for (uint32_t i = 0; i < k; ++i) {
        const double* y = b + i * n + col;
        for (uint32_t r = 0; r < 4; ++r) {
          const double x = a[(row + r) * k + i];
          for (uint32_t j = 0; j < 8; ++j) part[r][j] += x * y[j];
        }
      }
      for (uint32_t r = 0; r < 4; ++r) std::memcpy(sum + (row + r) * n + col, part[r], sizeof part[r]);
    }
}

namespace {

// f(lane, place of its value in the (16, n) matrix) for register i of an accumulator of 32-bit sums.
template <class F>
void each_sum(uint32_t i, uint32_t n, F f) {
  const uint32_t corner = i / 2 % 2 * 8 * n + i / 4 * 8 + i % 2;
  for (uint32_t lane = 0; lane < 32; ++lane) f(lane, corner + lane / 4 * n + lane % 4 * 2);
}
// The same for a register of two f16 sums: the place of the first, the other one is right of it.
template <class F>
void each_pair(uint32_t i, uint32_t n, F f) {
  const uint32_t corner = i % 2 * 8 * n + i / 2 * 8;
  for (uint32_t lane = 0; lane < 32; ++lane) f(lane, corner + lane / 4 * n + lane % 4 * 2);
}

}  // namespace

void load_accumulator(const Warp& w, Type type, const uint32_t* rows, size_t count, uint32_t n, double* sum) {
  for (uint32_t i = 0; i < count; ++i) {
    if (type == Type::f32)
      each_sum(i, n, [&, v = w.read<float>(rows[i])](uint32_t lane, uint32_t at) { sum[at] = v[lane]; });
    else if (type == Type::s32)
      each_sum(i, n, [&, v = w.read<int32_t>(rows[i])](uint32_t lane, uint32_t at) { sum[at] = v[lane]; });
    else
      each_pair(i, n, [&, v = w.read<uint32_t>(rows[i])](uint32_t lane, uint32_t at) {
        sum[at] = to_f32(f16{uint16_t(v[lane])});
        sum[at + 1] = to_f32(f16{uint16_t(v[lane] >> 16)});
      });
  }
}

void store_accumulator(Warp& w, Type type, const uint32_t* rows, size_t count, uint32_t n, const double* sum) {
  for (uint32_t i = 0; i < count; ++i) {
    if (type == Type::f32)
      each_sum(i, n, [&, v = w.write<float>(rows[i])](uint32_t lane, uint32_t at) { v[lane] = rounded(sum[at]); });
    else if (type == Type::s32)
      each_sum(i, n, [&, v = w.write<uint32_t>(rows[i])](uint32_t lane, uint32_t at) {
        v[lane] = uint32_t(int64_t(sum[at]));
      });
    else
      each_pair(i, n, [&, v = w.write<uint32_t>(rows[i])](uint32_t lane, uint32_t at) {
        v[lane] = to_f16(sum[at]).bits | uint32_t(to_f16(sum[at + 1]).bits) << 16;
      });
  }
}

void load_fragment(const Warp& w, Type type, const uint32_t* rows, uint32_t count, uint32_t words, double* a) {
  uint32_t matrix[16 * 8];  // (16, words): k elements are at most 32 bytes
  for (uint32_t r = 0; r < count; ++r)
    for (uint32_t lane = 0; lane < 32; ++lane)
      matrix[(lane / 4 + r % 2 * 8) * words + r / 2 * 4 + lane % 4] = w.read<uint32_t>(rows[r])[lane];
  const uint32_t height = count == 1 ? 8 : 16;
  decode(type, matrix, height * words * 4 / size_of(type), a, 1);
}

}  // namespace heddle::ptx::machine

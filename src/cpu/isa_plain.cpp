// Any machine: vectors of 16 bytes, which the compiler maps to what there is.
#include "cpu/kernels/make_isa.h"

namespace heddle::cpu {
namespace {

struct Plain {
  static constexpr int width = 16, vectors = 2, wide_offset = 0, max_pass = 2, ahead = 0;
  static constexpr bool signed_bytes = true, has_eight_rows = false;
  static constexpr int registers = 16;
  typedef uint8_t B __attribute__((vector_size(16)));
  typedef int16_t S __attribute__((vector_size(16)));
  typedef int32_t I __attribute__((vector_size(16)));
  typedef float F __attribute__((vector_size(16)));
  using X = const int8_t*;
  static HEDDLE_INLINE I zero() { return I{}; }
  static HEDDLE_INLINE X x(const int8_t* from) { return from; }
  // Two products of bytes fit an int16: 2 * 128 * 127 < 2^15.
  template <int lane>
  static HEDDLE_INLINE I dot(I sum, B w, X x) {
    const I four = I{} + load<int32_t>(x + 4 * lane);
    const S even = ((S)w << 8) >> 8, odd = (S)w >> 8, x_even = ((S)four << 8) >> 8, x_odd = (S)four >> 8;
    const I pairs = (I)(even * x_even + odd * x_odd);
    return sum + ((pairs << 16) >> 16) + (pairs >> 16);
  }
  template <int lane>
  static HEDDLE_INLINE I dot_wide(I sum, B w, X x) {
    return dot<lane>(sum, w, x);
  }
  static HEDDLE_INLINE B wide(B w) { return w; }
  static HEDDLE_INLINE B low_then(B a, B b) { return low_nibbles_then(a, b); }
  static HEDDLE_INLINE B high_then(B a, B b) { return high_nibbles_then(a, b); }
  static HEDDLE_INLINE B table(B nibbles, const int8_t* entries) {
    uint8_t bytes[16];
    store(bytes, nibbles);
    for (uint8_t& byte : bytes) byte = uint8_t(entries[byte]);
    return load<B>(bytes);
  }
  static HEDDLE_INLINE F fma(F a, F b, F c) { return a * b + c; }
  static HEDDLE_INLINE F half(const void* from) {
    float values[4];
    for (int i = 0; i < 4; ++i)
      values[i] = quant::f32_of_f16(load<uint16_t>(static_cast<const uint8_t*>(from) + 2 * i));
    return load<F>(values);
  }
  static HEDDLE_INLINE void store_half(void* to, F value) {
    for (int i = 0; i < 4; ++i) store(static_cast<uint8_t*>(to) + 2 * i, quant::f16_of_f32(value[i]));
  }
  static HEDDLE_INLINE void sixteen(const void* from, F (&to)[4]) {
    for (int i = 0; i < 4; ++i) {
      const int8_t* four = static_cast<const int8_t*>(from) + 4 * i;
      to[i] = F{float(four[0]), float(four[1]), float(four[2]), float(four[3])};
    }
  }
};

}  // namespace

const Isa& isa_plain() {
  static const Isa isa = make_isa<Plain>("plain");
  return isa;
}

}  // namespace heddle::cpu

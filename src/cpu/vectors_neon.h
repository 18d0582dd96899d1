// What vectors of 16 bytes are on aarch64 with sdot. Included by isa_*.cpp alone.
#pragma once
#include <arm_neon.h>

#include "cpu/kernels/vector.h"

namespace heddle::cpu {
namespace {

struct Neon {
  static constexpr int width = 16, vectors = 2, wide_offset = 0, max_pass = 12, ahead = 16384;
  static constexpr bool signed_bytes = true, has_eight_rows = true;
  static constexpr int registers = 32;
  using B = uint8x16_t;
  using I = int32x4_t;
  using F = float32x4_t;
  using X = int8x16_t;
  // A fresh zero costs nothing; a copy of one costs as much as a product.
  static HEDDLE_INLINE I zero() {
    I zeros;
    asm volatile("movi %0.4s, #0" : "=w"(zeros));
    return zeros;
  }
  static HEDDLE_INLINE X x(const int8_t* from) { return vld1q_s8(from); }
  template <int lane>
  static HEDDLE_INLINE I dot(I sum, B w, X x) {
    return vdotq_laneq_s32(sum, vreinterpretq_s8_u8(w), x, lane);
  }
  template <int lane>
  static HEDDLE_INLINE I dot_wide(I sum, B w, X x) {
    return dot<lane>(sum, w, x);
  }
  static HEDDLE_INLINE B wide(B w) { return w; }
  // A product with 1 for byte `index` of each word and 0 for the others.
  template <int index>
  static HEDDLE_INLINE I byte_of(B words) {
    const X ones = vreinterpretq_s8_u32(uint32x4_t{1, 1 << 8, 1 << 16, 1 << 24});
    return dot<index>(zero(), words, ones);
  }
  static HEDDLE_INLINE B low_then(B a, B b) { return vsliq_n_u8(a, b, 4); }
  static HEDDLE_INLINE B high_then(B a, B b) { return vsriq_n_u8(b, a, 4); }
  static HEDDLE_INLINE B table(B nibbles, const int8_t* entries) {
    return vreinterpretq_u8_s8(vqtbl1q_s8(vld1q_s8(entries), nibbles));
  }
  static HEDDLE_INLINE F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  // One lane of a with all of b.
  template <int lane>
  static HEDDLE_INLINE F fma_lane(F a, F b, F c) {
    return vfmaq_laneq_f32(c, b, a, lane);
  }
  static HEDDLE_INLINE F half(const void* from) { return vcvt_f32_f16(vreinterpret_f16_u16(load<uint16x4_t>(from))); }
#if defined(__ARM_FEATURE_FP16_FML)
  // Two vectors, as 0 + 1 * half (so -0 becomes 0): four in a cycle on a Neoverse V1, which converts one.
  static HEDDLE_INLINE void two_halves(const void* from, F* to) {
    const float16x8_t halves = vreinterpretq_f16_u16(load<uint16x8_t>(from));
    const float16x8_t ones = vreinterpretq_f16_u16(vdupq_n_u16(0x3c00));
    to[0] = vfmlalq_low_f16(vreinterpretq_f32_s32(zero()), halves, ones);
    to[1] = vfmlalq_high_f16(vreinterpretq_f32_s32(zero()), halves, ones);
  }
#endif
  static HEDDLE_INLINE void store_half(void* to, F value) { store(to, vcvt_f16_f32(value)); }
  // Each byte becomes the highest of a word, which is taken as a fraction of 24 bits: places beyond the table are 0.
  static HEDDLE_INLINE void sixteen(const void* from, F (&to)[4]) {
    const uint8x16_t bytes = load<uint8x16_t>(from);
    constexpr uint32_t first = 0x00ffffff;
    const uint32x4_t places = {first, first + (1u << 24), first + (2u << 24), first + (3u << 24)};
    each<4>([&](auto i) HEDDLE_INLINE_LAMBDA {
      const uint32x4_t here = places + (uint32_t(4 * HEDDLE_VALUE(i)) << 24);
      const uint8x16_t words = vqtbl1q_u8(bytes, vreinterpretq_u8_u32(here));
      to[HEDDLE_VALUE(i)] = vcvtq_n_f32_s32(vreinterpretq_s32_u8(words), 24);
    });
  }
};

}  // namespace
}  // namespace heddle::cpu

// The vectors of AVX-512 with VNNI, for the kernels.
#pragma once
#include <immintrin.h>

#include "cpu/kernels/vector.h"

namespace heddle::cpu {
namespace {

struct Zmm {
  // vpdpbusd takes unsigned weights: signed ones are raised by 128, and 128 times the sum of x is subtracted
  static constexpr int width = 64, vectors = 1, wide_offset = 128;
  static constexpr bool signed_bytes = false, has_eight_rows = false;
  static constexpr int registers = 32;
  static constexpr int ahead = 8192, max_pass = 12;
  typedef uint8_t B __attribute__((vector_size(64)));
  typedef int32_t I __attribute__((vector_size(64)));
  typedef float F __attribute__((vector_size(64)));
  using X = const int8_t*;
  static HEDDLE_INLINE I zero() { return I{}; }
  static HEDDLE_INLINE X x(const int8_t* from) { return from; }
  template <int lane>
  static HEDDLE_INLINE I dot(I sum, B w, X x) {
    return (I)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(load<int32_t>(x + 4 * lane)));
  }
  template <int lane>
  static HEDDLE_INLINE I dot_wide(I sum, B w, X x) {
    return dot<lane>(sum, w, x);
  }
  static HEDDLE_INLINE B wide(B w) { return w ^ uint8_t(128); }
  static HEDDLE_INLINE B low_then(B a, B b) { return low_nibbles_then(a, b); }
  static HEDDLE_INLINE B high_then(B a, B b) { return high_nibbles_then(a, b); }
  static HEDDLE_INLINE B table(B nibbles, const int8_t* entries) {
    return (B)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(load<__m128i>(entries)), (__m512i)nibbles);
  }
  static HEDDLE_INLINE F fma(F a, F b, F c) { return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
  static HEDDLE_INLINE F half(const void* from) { return (F)_mm512_cvtph_ps(load<__m256i>(from)); }
  static HEDDLE_INLINE void store_half(void* to, F value) {
    store(to, _mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static HEDDLE_INLINE void sixteen(const void* from, F (&to)[1]) {
    to[0] = (F)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load<__m128i>(from)));
  }
};

}  // namespace
}  // namespace heddle::cpu

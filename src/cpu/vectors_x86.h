// What vectors of 32 bytes are on x86-64, but for the dot product of bytes. Included by isa_*.cpp alone.
#pragma once
#include <immintrin.h>

#include "cpu/kernels/vector.h"

namespace heddle::cpu {
namespace {

struct Ymm {
  static constexpr int width = 32, vectors = 1;
  static constexpr bool signed_bytes = false, has_eight_rows = false;
  static constexpr int registers = 16;
  static constexpr int ahead = 8192, max_pass = 8;
  typedef uint8_t B __attribute__((vector_size(32)));
  typedef int32_t I __attribute__((vector_size(32)));
  typedef float F __attribute__((vector_size(32)));
  using X = const int8_t*;
  static HEDDLE_INLINE I zero() { return I{}; }
  static HEDDLE_INLINE X x(const int8_t* from) { return from; }
  template <int lane>
  static HEDDLE_INLINE __m256i four(X x) {
    return _mm256_set1_epi32(load<int32_t>(x + 4 * lane));
  }
  static HEDDLE_INLINE B low_then(B a, B b) { return low_nibbles_then(a, b); }
  static HEDDLE_INLINE B high_then(B a, B b) { return high_nibbles_then(a, b); }
  static HEDDLE_INLINE B table(B nibbles, const int8_t* entries) {
    const __m256i both = _mm256_broadcastsi128_si256(load<__m128i>(entries));
    return (B)_mm256_shuffle_epi8(both, (__m256i)nibbles);
  }
  static HEDDLE_INLINE F fma(F a, F b, F c) { return (F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
  static HEDDLE_INLINE F half(const void* from) { return (F)_mm256_cvtph_ps(load<__m128i>(from)); }
  static HEDDLE_INLINE void store_half(void* to, F value) {
    store(to, _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static HEDDLE_INLINE void sixteen(const void* from, F (&to)[2]) {
    const __m128i bytes = load<__m128i>(from);
    to[0] = (F)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    to[1] = (F)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
  }
};

}  // namespace
}  // namespace heddle::cpu

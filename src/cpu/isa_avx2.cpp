// x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#include "cpu/kernels/make_isa.h"
#include "cpu/vectors_x86.h"

namespace heddle::cpu {
namespace {

struct Avx2 : Ymm {
  static constexpr int wide_offset = 0;
  // Two products fit an int16 where the weights are below 128: 2 * 127 * 127 < 2^15.
  template <int lane>
  static HEDDLE_INLINE I dot(I sum, B w, X x) {
    return add_pairs(sum, _mm256_maddubs_epi16((__m256i)w, four<lane>(x)));
  }
  template <int lane>
  static HEDDLE_INLINE I dot_wide(I sum, B w, X x) {
    const __m256i v = (__m256i)w;
    return add_pairs(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(four<lane>(x), v)));
  }
  static HEDDLE_INLINE B wide(B w) { return w; }

  typedef int16_t Shorts __attribute__((vector_size(32)));
  template <int lane>
  static HEDDLE_INLINE Shorts multiply_bytes(B w, X x) {
    return (Shorts)_mm256_maddubs_epi16((__m256i)w, four<lane>(x));
  }
  static HEDDLE_INLINE Shorts interleaved(I low, I high) {
    return (Shorts)_mm256_blend_epi16((__m256i)low, (__m256i)(high << 16), 0xaa);
  }
  static HEDDLE_INLINE Shorts narrow(const int32_t* sixteen) {
    const __m256i halves = _mm256_packs_epi32(load<__m256i>(sixteen), load<__m256i>(sixteen + 8));
    return (Shorts)_mm256_permute4x64_epi64(halves, 0xd8);
  }
  static HEDDLE_INLINE I dot_shorts(I sum, Shorts a, Shorts b) {
    return sum + (I)_mm256_madd_epi16((__m256i)a, (__m256i)b);
  }

 private:
  static HEDDLE_INLINE I add_pairs(I sum, __m256i pairs) {
    return dot_shorts(sum, (Shorts)pairs, (Shorts)_mm256_set1_epi16(1));
  }
};

}  // namespace

const Isa& isa_avx2() {
  static const Isa isa = make_isa<Avx2>("avx2");
  return isa;
}

}  // namespace heddle::cpu
#endif

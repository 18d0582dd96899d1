// x86-64 with AVX2 and AVX-VNNI: processors for desktops and laptops that have no AVX-512.
#if defined(__x86_64__)
#include "cpu/kernels/make_isa.h"
#include "cpu/vectors_x86.h"

namespace heddle::cpu {
namespace {

struct AvxVnni : Ymm {
  // vpdpbusd takes unsigned weights: signed ones are raised by 128, and 128 times the sum of x is subtracted
  static constexpr int wide_offset = 128;
  template <int lane>
  static HEDDLE_INLINE I dot(I sum, B w, X x) {
    return (I)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, four<lane>(x));
  }
  template <int lane>
  static HEDDLE_INLINE I dot_wide(I sum, B w, X x) {
    return dot<lane>(sum, w, x);
  }
  static HEDDLE_INLINE B wide(B w) { return w ^ uint8_t(128); }
};

}  // namespace

const Isa& isa_avx_vnni() {
  static const Isa isa = make_isa<AvxVnni>("avx-vnni");
  return isa;
}

}  // namespace heddle::cpu
#endif

// x86-64 with AVX-512 (F, BW, VL, DQ) and its VNNI: 16 rows a tile.
#if defined(__x86_64__)
#include "cpu/kernels/make_isa.h"
#include "cpu/vectors_zmm.h"

namespace heddle::cpu {

const Isa& isa_avx512_vnni() {
  static const Isa isa = make_isa<Zmm>("avx512-vnni");
  return isa;
}

}  // namespace heddle::cpu
#endif

// aarch64 with sdot (ARMv8.2 dotprod).
#if defined(__aarch64__)
#include "cpu/kernels/make_isa.h"
#include "cpu/vectors_neon.h"

namespace heddle::cpu {

const Isa& isa_neon_dotprod() {
  static const Isa isa = make_isa<Neon>("neon-dotprod");
  return isa;
}

}  // namespace heddle::cpu
#endif

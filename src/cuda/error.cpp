#include "cuda/error.h"

namespace heddle::cuda {

bool loses_context(int code) {
  switch (code) {
    case 4:    // the driver is shutting down
    case 214:  // ECC
    case 220:  // NVLink
    case 226:  // contained memory fault
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // assert
    case 714:  // hardware stack
    case 715:  // illegal instruction, trap
    case 716:  // misaligned address
    case 717:  // wrong address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 721:  // tensor memory leak
      return true;
    default:
      return false;
  }
}

}  // namespace heddle::cuda

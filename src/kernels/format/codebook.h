// The codebook of a format whose quants name entries of one, where kernels look entries up: in constant memory, where
// lanes that look up different entries wait for each other, or in a copy in shared memory.
#pragma once
#include "ptx/code.h"

namespace heddle::kernels {

class Codebook {
 public:
  Codebook() = default;
  explicit Codebook(ptx::Constant<uint32_t> words) : constant_(words) {}
  explicit Codebook(ptx::Shared<uint32_t> words) : shared_(words), in_shared_(true) {}
  explicit operator bool() const { return in_shared_ || constant_.base.rec; }

  // Entries of 32 bits, of 64 and of 16.
  ptx::U32 word(ptx::U32 index) const { return in_shared_ ? load(shared_ + index) : load(constant_ + index); }
  ptx::Vec<uint32_t, 2> pair(ptx::U32 index) const {
    return in_shared_ ? ptx::load_vec<2>(shared_ + (index << 1u)) : ptx::load_vec<2>(constant_ + (index << 1u));
  }
  ptx::U32 half(ptx::U32 index) const {
    return ptx::to<uint32_t>(in_shared_ ? load(shared_.as<uint16_t>() + index)
                                        : load(constant_.as<uint16_t>() + index));
  }

 private:
  ptx::Constant<uint32_t> constant_{};
  ptx::Shared<uint32_t> shared_{};
  bool in_shared_ = false;
};

}  // namespace heddle::kernels

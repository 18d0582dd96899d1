// Where the bytes of a weight block are: contiguous as in the file, or spread over the planes of a tile. Decoders
// address them by their place in the file.
#pragma once
#include "ptx/memory.h"

namespace heddle::kernels {

// Words of a weight block from an address that is only as aligned as the format makes it. No access is misaligned, and
// none reaches outside the words, except for up to 3 bytes before them (in the aligned word that holds their first
// byte).

// n words (1, 2, 4 or 8) at an address that is a multiple of `align` (1, 2, 4, 8 or 16).
std::vector<ptx::U32> load_words(ptx::Global<uint8_t> at, uint32_t n, uint32_t align, ptx::Access how,
                                 ptx::Loc loc = ptx::Loc::current());
// A 16-bit word in a 32-bit register.
ptx::U32 load_half(ptx::Global<uint8_t> at, ptx::Access how, ptx::Loc loc = ptx::Loc::current());

// `offset` is known at build time and selects the field; `at`, if given, is added to it and stays inside the field.
class BlockBytes {
 public:
  virtual ~BlockBytes() = default;
  // n = 1, 2 or 4 words, `at` a multiple of their size; or 8 without `at`.
  virtual std::vector<ptx::U32> words(uint32_t offset, uint32_t n, ptx::U32 at = {}) const = 0;
  // 16 bits, a byte and an int8 in a 32-bit register.
  virtual ptx::U32 half(uint32_t offset, ptx::U32 at = {}) const = 0;
  virtual ptx::U32 byte(uint32_t offset, ptx::U32 at = {}) const = 0;
  virtual ptx::U32 signed_byte(uint32_t offset, ptx::U32 at = {}) const = 0;

  ptx::U32 word(uint32_t offset, ptx::U32 at = {}) const { return words(offset, 1, at)[0]; }
};

// As in the file, at an address that is a multiple of `align`.
class BlockInFile : public BlockBytes {
 public:
  BlockInFile(ptx::Global<uint8_t> block, uint32_t align, ptx::Access how) : block_(block), align_(align), how_(how) {}

  std::vector<ptx::U32> words(uint32_t offset, uint32_t n, ptx::U32 at) const override {
    return load_words(place(offset, at), n, align_, how_);
  }
  ptx::U32 half(uint32_t offset, ptx::U32 at) const override { return load_half(place(offset, at), how_); }
  ptx::U32 byte(uint32_t offset, ptx::U32 at) const override { return load(place(offset, at), how_); }
  ptx::U32 signed_byte(uint32_t offset, ptx::U32 at) const override {
    return ptx::bitcast<uint32_t>(load(place(offset, at).as<int8_t>(), how_));
  }

 private:
  ptx::Global<uint8_t> place(uint32_t offset, ptx::U32 at) const {
    return (at.rec ? block_ + at : block_).offset(offset);
  }

  ptx::Global<uint8_t> block_;
  uint32_t align_;
  ptx::Access how_;
};

}  // namespace heddle::kernels

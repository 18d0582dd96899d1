// How kernels read quantised weights: the only place where a format is decoded on the device. quant/ has the layouts
// and the scalar reference.
#pragma once
#include <array>

#include "base/error.h"
#include "kernels/spec/field.h"
#include "ptx/code.h"
#include "ptx/memory.h"
#include "quant/format.h"

namespace heddle::kernels {

// The formats that kernels read, from tiles (product/tile.h). quant/ knows more: f64 and integers, which a file may
// hold too.
inline constexpr std::array known_formats{
    quant::Format::f32,    quant::Format::f16,   quant::Format::bf16,    quant::Format::q4_0,   quant::Format::q4_1,
    quant::Format::q5_0,   quant::Format::q5_1,  quant::Format::q8_0,    quant::Format::q2_k,   quant::Format::q3_k,
    quant::Format::q4_k,   quant::Format::q5_k,  quant::Format::q6_k,    quant::Format::iq4_nl, quant::Format::iq4_xs,
    quant::Format::mxfp4,  quant::Format::nvfp4, quant::Format::iq1_s,   quant::Format::iq1_m,  quant::Format::iq2_xxs,
    quant::Format::iq2_xs, quant::Format::iq2_s, quant::Format::iq3_xxs, quant::Format::iq3_s,  quant::Format::tq1_0,
    quant::Format::tq2_0,  quant::Format::q1_0,  quant::Format::q2_0,    quant::Format::q8_1,   quant::Format::q8_k};

// The field `format` of a spec: a quant::Format by its name.
inline Allowed weight_formats() {
  Allowed a;
  for (quant::Format f : known_formats) {
    a.values.push_back(uint32_t(f));
    a.names.emplace_back(quant::name(f));
  }
  a.other_name = [](uint32_t v) { return v < quant::format_count ? quant::name(quant::Format(v)) : ""; };
  return a;
}

// The bytes of a weight block. They are spread over the planes of a tile; decoders address them by their place in the
// file. `offset` is known at build time and selects the field; `at`, if given, is added to it and stays inside the
// field.
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

// A lane takes a piece of a block: 32 values as two runs of 16, so a block of 256 values has eight pieces and a block
// of 32 one. Loading and decoding are separate, so that all loads of a lane can be issued before the first use;
// BlockBytes says where the bytes of a block are.

// The codebook of a format with quants that index one: in constant memory, where lanes with different indices wait for
// each other, or as a copy in shared memory.
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

// Which values of a block a lane takes.
struct Lane {
  ptx::U32 piece;   // of the block
  Codebook book{};  // of a format that has one
};

// Words as they are in the block, in registers.
struct Raw {
  std::vector<ptx::U32> head, quants;
};

// A run of consecutive values: value i is scale * (int8 i of q) - min.
struct Run {
  std::vector<ptx::U32> q;  // four int8 each; never negative where there is a min
  ptx::F32 scale, min;
  bool has_min;
};

class BlockFormat {
 public:
  uint32_t values, bytes;        // of a block
  bool has_min;                  // else Run::min is not set
  uint32_t apart;                // values from the start of a lane's first run to that of its second
  std::vector<uint32_t> fields;  // the bytes of each field of a block, in the order of the file; no access crosses
                                 // them, but for one of 8 words that is two of 4

  virtual ~BlockFormat() = default;
  uint32_t pieces() const { return values / 32; }
  // The place of a lane's first run in the block.
  virtual ptx::U32 first(const Lane& lane) const { return lane.piece * 32u; }
  virtual std::vector<ptx::U32> load_head(const BlockBytes& block, const Lane& lane) const = 0;
  virtual std::vector<ptx::U32> load_quants(const BlockBytes& block, const Lane& lane) const = 0;
  virtual std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const = 0;
  // The same with fewer instructions, for callers that know the sums of the values that the runs are multiplied with:
  // where a run has a min, its q are bytes from 0 to 255.
  virtual std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const { return decode(raw, lane); }
  // The 32 values times `factor` as f16 for the matrix units, run 0 then run 1: of each four values the first and the
  // third in a word, then the second and the fourth. Scale, min and result are each rounded to f16.
  virtual std::vector<ptx::U32> halves(const Raw& raw, const Lane& lane, float factor) const;
  // The codebook of a format that has one, else empty.
  virtual std::vector<uint32_t> book() const { return {}; }

 protected:
  struct Traits {
    bool has_min = false;
    uint32_t apart = 16;
    std::vector<uint32_t> fields;
  };
  BlockFormat(quant::Format format, Traits t);
};
// Throws an Error for f32, f16 and bf16, which have no blocks (see decode_floats), and for formats that are not among
// known_formats.
const BlockFormat& block_format(quant::Format format);

// The int8 of a run as f32.
std::vector<ptx::F32> to_floats(const Run& run, ptx::Loc l = ptx::Loc::current());

// One per family; null for formats of other families.
const BlockFormat* block_of_32(quant::Format format);
const BlockFormat* super_block(quant::Format format);
const BlockFormat* super_block_of_two_bits(quant::Format format);
const BlockFormat* block_with_table(quant::Format format);
const BlockFormat* block_of_few_bits(quant::Format format);
const BlockFormat* block_with_grid(quant::Format format);

// For the decoders: each byte of `bytes` (0 to 127 + bias) less `bias`, as int8.
inline ptx::U32 less_bias(ptx::U32 bytes, uint32_t bias) {
  return (bytes + (128 - bias) * 0x01010101u) ^ 0x80808080u;  // no byte carries into the next
}
// By n modulo 32.
inline ptx::U32 rotate_left(ptx::U32 word, ptx::U32 n) { return funnel_left(word, word, n); }
// Bit i of four to bit 0 of byte i: each factor 2^7 moves one of them to its byte.
inline ptx::U32 bits_to_bytes(ptx::U32 four) { return four * 0x00204081u & 0x01010101u; }
// Bits 2i and 2i + 1 of eight to the low bits of byte i.
inline ptx::U32 pairs_to_bytes(ptx::U32 eight) {
  ptx::U32 two = (eight | eight << 12u) & 0x000f000fu;
  return (two | two << 6u) & 0x03030303u;
}
// 2^23 + byte i of a word. Subtracting 2^23 gives the byte as f32 by a permute and an add, where a conversion is slow.
inline ptx::F32 byte_above_2_23(ptx::U32 word, uint32_t i) {
  return ptx::bitcast<float>(permute_bytes(word, 0x4b000000u, 0x7440u | i));
}
// v as both halves of a word.
inline ptx::F16x2 twice_f16(ptx::F32 v) { return to_f16x2(v, v); }
// Bits 0 to 3 (or 4 to 7) of each 16, above 1024 (in units of 1, or 16), as two f16: a nibble n in the low bits of the
// f16 1024 is 1024 + n.
inline ptx::F16x2 low_nibbles(ptx::U32 word) {
  return ptx::bitcast<ptx::f16x2>(lop3(word, 0x000f000fu, 0x64006400u, 0xea)) - ptx::f16x2{0x64006400u};
}
inline ptx::F16x2 high_nibbles(ptx::U32 word) {  // (1024 + 16 n) / 16 - 64
  return fma(ptx::bitcast<ptx::f16x2>(lop3(word, 0x00f000f0u, 0x64006400u, 0xea)), ptx::f16x2{0x2c002c00u},
             ptx::f16x2{0xd400d400u});
}
// The f16 in the low or high half of a word.
inline ptx::F32 low_f16(ptx::U32 word) { return to_f32(ptx::unpack<f16>(word)[0]); }
inline ptx::F32 high_f16(ptx::U32 word) { return to_f32(ptx::unpack<f16>(word)[1]); }

// Weights that are floats, f32, f16 or bf16: the values in these words.
inline std::vector<ptx::F32> decode_floats(quant::Format format, const std::vector<ptx::U32>& words) {
  check(quant::is_float(format), "f32, f16 or bf16");
  std::vector<ptx::F32> values;
  for (ptx::U32 w : words) {
    if (format == quant::Format::f32) {
      values.push_back(ptx::bitcast<float>(w));
      continue;
    }
    for (uint32_t half = 0; half < 2; ++half)
      values.push_back(format == quant::Format::f16 ? to_f32(ptx::unpack<f16>(w)[half])
                                                    : ptx::bitcast<float>(half ? w & 0xffff0000u : w << 16u));
  }
  return values;
}

}  // namespace heddle::kernels

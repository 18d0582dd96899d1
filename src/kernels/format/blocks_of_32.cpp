// Small blocks with one scale: 32 values (q4_0 to q8_1), or more of one or two bits (q1_0, q2_0, tq1_0).
#include "kernels/format/block_format.h"

namespace heddle::kernels {

using namespace ptx;
using quant::Format;

// Blocks of 32 values: q4_0, q4_1, q5_0, q5_1, q8_0, q8_1. quant/decode_blocks.cpp has the layouts.

namespace {

// The nibbles of value 0 to 15 are low, those of 16 to 31 high; with five bits, the fifth are in a word before them.
class Nibbles : public BlockFormat {
 public:
  Nibbles(Format format, bool min, bool five)
      : BlockFormat(format, {.has_min = min,
                             .fields = five ? std::vector<uint32_t>{min ? 4u : 2u, 4, 16}
                                            : std::vector<uint32_t>{min ? 4u : 2u, 16}}),
        five_bits(five) {}

  // d (and m in the high half), the fifth bits
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override {
    std::vector<U32> head{has_min ? block.word(0) : block.half(0)};
    if (five_bits) head.push_back(block.word(fields[0]));
    return head;
  }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane&) const override {
    return block.words(bytes - 16, 4);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane&) const override {
    std::array<Run, 2> runs = scales(raw);
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t i = 0; i < 4; ++i) {
        U32 q = raw.quants[i] >> 4 * half & 0x0f0f0f0fu;
        if (five_bits) q = q | fifth(raw, half, i);
        runs[half].q.push_back(has_min ? q : less_bias(q, bias()));
      }
    return runs;
  }
  // With the bias as the min. The high nibbles are not shifted, so they are 16 times too large.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    if (five_bits && has_min) return decode(raw, lane);
    std::array<Run, 2> runs = scales(raw);
    for (uint32_t half = 0; half < 2; ++half) {
      Run& run = runs[half];
      if (!has_min) {
        run.min = run.scale * float(bias());
        run.has_min = true;
      }
      if (half && !five_bits) run.scale = run.scale * 0x1p-4f;
      for (uint32_t i = 0; i < 4; ++i)
        run.q.push_back(five_bits ? (raw.quants[i] >> 4 * half & 0x0f0f0f0fu) | fifth(raw, half, i)
                                  : raw.quants[i] & (half ? 0xf0f0f0f0u : 0x0f0f0f0fu));
    }
    return runs;
  }

 private:
  uint32_t bias() const { return five_bits ? 16 : 8; }
  std::array<Run, 2> scales(const Raw& raw) const {
    Run run{.q = {}, .scale = low_f16(raw.head[0]), .min = {}, .has_min = has_min};
    if (has_min) run.min = -high_f16(raw.head[0]);
    return {run, run};
  }
  // Four bits of the word to bit 4 of four bytes: each factor 2^7 moves one of them to the next byte.
  static U32 fifth(const Raw& raw, uint32_t half, uint32_t i) {
    U32 bits = raw.head[1] >> (16 * half + 4 * i) & 15u;
    return bits * 0x02040810u & 0x10101010u;
  }
  bool five_bits;
};

class Bytes : public BlockFormat {
 public:
  Bytes(Format format, uint32_t head) : BlockFormat(format, {.fields = {head, 16, 16}}) {}

  // d; the sum that follows in q8_1 is implied by the int8
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(0)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane&) const override {
    return block.words(fields[0], 8);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane&) const override {
    Run run{.q = {}, .scale = low_f16(raw.head[0]), .min = {}, .has_min = false};
    std::array<Run, 2> runs{run, run};
    for (uint32_t i = 0; i < 8; ++i) runs[i / 4].q.push_back(raw.quants[i]);
    return runs;
  }
};

}  // namespace

const BlockFormat* block_of_32(Format format) {
  static const Nibbles q4_0(Format::q4_0, false, false), q4_1(Format::q4_1, true, false),
      q5_0(Format::q5_0, false, true), q5_1(Format::q5_1, true, true);
  static const Bytes q8_0(Format::q8_0, 2), q8_1(Format::q8_1, 4);
  switch (format) {
    case Format::q4_0:
      return &q4_0;
    case Format::q4_1:
      return &q4_1;
    case Format::q5_0:
      return &q5_0;
    case Format::q5_1:
      return &q5_1;
    case Format::q8_0:
      return &q8_0;
    case Format::q8_1:
      return &q8_1;
    default:
      return nullptr;
  }
}

// One scale for many values of one or two bits, or of three states: q1_0, q2_0, tq1_0. quant/decode_blocks.cpp has the
// layouts. tq2_0 is in super_blocks.cpp.

namespace {

class FewBits : public BlockFormat {
 public:
  FewBits(Format format, uint32_t d_at, std::vector<uint32_t> block_fields)
      : BlockFormat(format, {.fields = std::move(block_fields)}), d(d_at) {}

  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(d)}; }

 protected:
  static std::array<Run, 2> runs_of(const Raw& raw) {
    Run run{.q = {}, .scale = low_f16(raw.head[0]), .min = {}, .has_min = false};
    return {run, run};
  }

 private:
  uint32_t d;
};

class Q1_0 : public FewBits {
 public:
  Q1_0() : FewBits(Format::q1_0, 0, {2, 16}) {}
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return {block.word(2, lane.piece * 4u)};
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane&) const override {
    std::array<Run, 2> runs = runs_of(raw);
    for (uint32_t i = 0; i < 8; ++i)  // -1, or 1 where the bit is set
      runs[i / 4].q.push_back(bits_to_bytes(raw.quants[0] >> 4 * i & 15u) * 0xfeu ^ 0xffffffffu);
    return runs;
  }
};

class Q2_0 : public FewBits {
 public:
  Q2_0() : FewBits(Format::q2_0, 0, {2, 16}) {}
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return block.words(2, 2, lane.piece * 8u);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane&) const override {
    std::array<Run, 2> runs = runs_of(raw);
    for (uint32_t i = 0; i < 8; ++i)
      runs[i / 4].q.push_back(less_bias(pairs_to_bytes(raw.quants[i / 4] >> 8 * (i % 4) & 255u), 1));
    return runs;
  }
};

// Pieces 0 to 4 are the five digits of bytes 0-31. Of bytes 32-47 a digit is one run: two for pieces 5 and 6, the last
// and all digits of bytes 48-51 for piece 7.
class Tq1_0 : public FewBits {
 public:
  Tq1_0() : FewBits(Format::tq1_0, 52, {48, 4, 2}) {}
  // the bytes of either run, then the last four
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    U32 wide = select(lane.piece < 5u, ptx::detail::constant(lane.piece.rec, 0u, {}), 32u);
    auto words = block.words(0, 4, wide);
    for (U32 w : block.words(0, 4, wide + select(lane.piece < 5u, ptx::detail::constant(lane.piece.rec, 16u, {}), 0u)))
      words.push_back(w);
    words.push_back(block.word(48));
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = runs_of(raw);
    Pred wide = lane.piece < 5u, last = lane.piece == 7u;
    U32 digit = select(wide, lane.piece, (lane.piece - 5u) * 2u);
    U32 next = select(wide, digit, digit + 1u);
    for (uint32_t i = 0; i < 4; ++i) {
      runs[0].q.push_back(digits(raw.quants[i], power_of_3(digit)));
      U32 packed = select(last, raw.quants[8], raw.quants[4 + i]);
      uint32_t power = 1;
      for (uint32_t n = 0; n < i; ++n) power *= 3;
      runs[1].q.push_back(digits(packed, select(last, ptx::detail::constant(packed.rec, power, {}), power_of_3(next))));
    }
    return runs;
  }

 private:
  static U32 power_of_3(U32 n) {  // 0 to 5
    U32 low = permute_bytes(ptx::detail::constant(n.rec, 0x1b090301u, {}), 0x0000f351u, n);
    return low & 255u;
  }
  // One digit of each byte, less 1. Two bytes at a time, so that products have room.
  static U32 digits(U32 packed, U32 power) {
    std::array<U32, 2> pair;
    for (uint32_t i = 0; i < 2; ++i)
      pair[i] = ((packed >> 8 * i & 0x00ff00ffu) * power & 0x00ff00ffu) * 3u >> 8u & 0x00030003u;
    return less_bias(pair[0] | pair[1] << 8u, 1);
  }
};

}  // namespace

const BlockFormat* block_of_few_bits(Format format) {
  static const Q1_0 q1_0;
  static const Q2_0 q2_0;
  static const Tq1_0 tq1_0;
  switch (format) {
    case Format::q1_0:
      return &q1_0;
    case Format::q2_0:
      return &q2_0;
    case Format::tq1_0:
      return &tq1_0;
    default:
      return nullptr;
  }
}

}  // namespace heddle::kernels

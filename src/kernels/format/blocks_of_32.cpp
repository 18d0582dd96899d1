// Blocks of 32 values: q4_0, q4_1, q5_0, q5_1, q8_0, q8_1. quant/decode_blocks.cpp has the layouts.
#include "kernels/format/block_format.h"

namespace heddle::kernels {

using namespace ptx;
using quant::Format;

namespace {

// The nibbles of value 0 to 15 are low, those of 16 to 31 high; with five bits, the fifth are in a word before them.
class Nibbles : public BlockFormat {
 public:
  Nibbles(Format format, bool min, bool five)
      : BlockFormat(format, {.align = min ? 4u : 2u,
                             .values_per_min = min ? 32u : 0u,
                             .shared_head = five ? 2u : 1u,
                             .apart = 16,
                             .fields = five ? std::vector<uint32_t>{min ? 4u : 2u, 4, 16}
                                            : std::vector<uint32_t>{min ? 4u : 2u, 16}}),
        five_bits(five) {}

  U32 first(const Lane& lane) const override { return lane.quarter * 4u; }

  // d (and m in the high half), the fifth bits
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override {
    std::vector<U32> head{has_min ? block.word(0) : block.half(0)};
    if (five_bits) head.push_back(block.word(fields[0]));
    return head;
  }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return block.words(bytes - 16, lane.words, lane.quarter * 4u);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw);
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t i = 0; i < lane.words; ++i) {
        U32 q = raw.quants[i] >> 4 * half & 0x0f0f0f0fu;
        if (five_bits) q = q | fifth(raw, lane, half, i);
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
      for (uint32_t i = 0; i < lane.words; ++i)
        run.q.push_back(five_bits ? (raw.quants[i] >> 4 * half & 0x0f0f0f0fu) | fifth(raw, lane, half, i)
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
  static U32 fifth(const Raw& raw, const Lane& lane, uint32_t half, uint32_t i) {
    U32 bits = raw.head[1] >> (lane.quarter * 4u + (16 * half + 4 * i)) & 15u;
    return bits * 0x02040810u & 0x10101010u;
  }
  bool five_bits;
};

class Bytes : public BlockFormat {
 public:
  Bytes(Format format, uint32_t block_align, uint32_t head)
      : BlockFormat(
            format,
            {.align = block_align, .values_per_min = 0, .shared_head = 1, .apart = 16, .fields = {head, 16, 16}}) {}

  U32 first(const Lane& lane) const override { return lane.quarter * 4u; }
  // d; the sum that follows in q8_1 is implied by the int8
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(0)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    if (lane.words == 4) return block.words(fields[0], 8);
    U32 at = lane.quarter * 4u;
    return {block.word(fields[0], at), block.word(fields[0] + 16, at)};
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    Run run{.q = {}, .scale = low_f16(raw.head[0]), .min = {}, .has_min = false};
    std::array<Run, 2> runs{run, run};
    for (uint32_t i = 0; i < 2 * lane.words; ++i) runs[i / lane.words].q.push_back(raw.quants[i]);
    return runs;
  }
};

}  // namespace

const BlockFormat* block_of_32(Format format) {
  static const Nibbles q4_0(Format::q4_0, false, false), q4_1(Format::q4_1, true, false),
      q5_0(Format::q5_0, false, true), q5_1(Format::q5_1, true, true);
  static const Bytes q8_0(Format::q8_0, 2, 2), q8_1(Format::q8_1, 4, 4);
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

}  // namespace heddle::kernels

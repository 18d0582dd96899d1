// Blocks of 32 values: q4_0, q4_1, q5_0, q5_1, q8_0. quant/blocks_of_32.cpp has the layouts.
#include "kernels/format/block_format.h"
#include "kernels/format/words.h"

namespace heddle::kernels {

using namespace ptx;
using quant::Format;

namespace {

// The nibbles of value 0 to 15 are low, those of 16 to 31 high; with five bits, the fifth are in a word before them.
class Nibbles : public BlockFormat {
 public:
  Nibbles(Format format, bool min, bool five)
      : BlockFormat(
            format,
            {.align = min ? 4u : 2u, .values_per_min = min ? 32u : 0u, .shared_head = five ? 2u : 1u, .apart = 16}),
        five_bits(five) {}

  U32 first(const Lane& lane) const override { return lane.quarter * 4u; }

  // d (and m in the high half), the fifth bits
  std::vector<U32> load_head(Global<uint8_t> block, const Lane&, Access how) const override {
    std::vector<U32> head{has_min ? load(block.as<uint32_t>(), how) : load_half(block, how)};
    if (five_bits) head.push_back(load_words(block.offset(scales()), 1, align, how)[0]);
    return head;
  }
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    return load_words((block + lane.quarter * 4u).offset(scales() + (five_bits ? 4 : 0)), lane.words, align, how);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    F32 d = low_f16(raw.head[0]);
    Run run{.q = {}, .scale = d, .min = {}, .has_min = has_min};
    if (has_min) run.min = -high_f16(raw.head[0]);
    std::array<Run, 2> runs{run, run};
    for (uint32_t i = 0; i < lane.words; ++i)
      for (uint32_t half = 0; half < 2; ++half) {
        U32 q = raw.quants[i] >> 4 * half & 0x0f0f0f0fu;
        if (five_bits) {
          // four bits of the word to bit 4 of four bytes: each factor 2^7 moves one of them to the next byte
          U32 bits = raw.head[1] >> (lane.quarter * 4u + (16 * half + 4 * i)) & 15u;
          q = q | (bits * 0x02040810u & 0x10101010u);
        }
        runs[half].q.push_back(has_min ? q : less_bias(q, five_bits ? 16 : 8));
      }
    return runs;
  }

 private:
  bool five_bits;
  uint32_t scales() const { return has_min ? 4 : 2; }  // bytes of d and m
};

class Q8_0 : public BlockFormat {
 public:
  Q8_0() : BlockFormat(Format::q8_0, {.align = 2, .values_per_min = 0, .shared_head = 1, .apart = 16}) {}

  U32 first(const Lane& lane) const override { return lane.quarter * 4u; }
  std::vector<U32> load_head(Global<uint8_t> block, const Lane&, Access how) const override {
    return {load_half(block, how)};
  }
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    if (lane.words == 4) return load_words(block.offset(2), 8, align, how);
    auto at = block + lane.quarter * 4u;
    return {load_words(at.offset(2), 1, align, how)[0], load_words(at.offset(18), 1, align, how)[0]};
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
  static const Q8_0 q8_0;
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
    default:
      return nullptr;
  }
}

}  // namespace heddle::kernels

// Nibbles that index a table: iq4_nl, iq4_xs, mxfp4, nvfp4. quant/decode_blocks.cpp has the layouts. The table is four
// words of immediates that byte permutes select from, without memory accesses.
#include "quant/tables.h"

#include "base/error.h"
#include "kernels/format/block_format.h"

namespace heddle::kernels {

using namespace ptx;
using quant::Format;

namespace {

struct Entries {
  U32 low, high;  // of the low and the high nibbles
};
Entries look_up(const int8_t* table, U32 nibbles) {
  auto word = [&](uint32_t i) {
    uint32_t w;
    std::memcpy(&w, table + 4 * i, 4);
    return w;
  };
  auto constant = [&](uint32_t v) { return ptx::detail::constant(nibbles.rec, v, {}); };
  U32 lower = constant(word(0)), upper = constant(word(2));
  // a permute looks at the low 16 bits of its selector: four nibbles, three bits of each; the fourth bit then chooses
  // between the halves of the table
  U32 three = nibbles & 0x77777777u, fourth = (nibbles >> 1u & 0x44444444u) | 0x32103210u;
  std::array<U32, 2> four;
  for (uint32_t i = 0; i < 2; ++i) {
    U32 index = i ? three >> 16u : three;
    four[i] = permute_bytes(permute_bytes(lower, word(1), index), permute_bytes(upper, word(3), index),
                            i ? fourth >> 16u : fourth);
  }
  // low and high nibbles alternate in them
  return {permute_bytes(four[0], four[1], 0x6420u), permute_bytes(four[0], four[1], 0x7531u)};
}

class WithTable : public BlockFormat {
 public:
  WithTable(Format format, uint32_t block_align, const int8_t* entries, uint32_t head, uint32_t head_words)
      : BlockFormat(format, {.align = block_align,
                             .values_per_min = 0,
                             .shared_head = head_words,
                             .apart = 16,
                             .fields = {head, quant::block_bytes(format) - head}}),
        table(entries) {}

  U32 first(const Lane& lane) const override { return lane.piece * 32u + lane.quarter * 4u; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return block.words(fields[0], lane.words, lane.piece * 16u + lane.quarter * 4u);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    Run run{.q = {}, .scale = scale(raw.head, lane), .min = {}, .has_min = false};
    std::array<Run, 2> runs{run, run};
    for (U32 w : raw.quants) {
      auto [low, high] = look_up(table, w);
      runs[0].q.push_back(low);
      runs[1].q.push_back(high);
    }
    return runs;
  }

 protected:
  virtual F32 scale(const std::vector<U32>& head, const Lane& lane) const = 0;

 private:
  const int8_t* table;
};

class Iq4Nl : public WithTable {
 public:
  Iq4Nl() : WithTable(Format::iq4_nl, 2, quant::iq4_table, 2, 1) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(0)}; }
  F32 scale(const std::vector<U32>& head, const Lane&) const override { return low_f16(head[0]); }
};

// Piece l is the 32 values of scale l.
class Iq4Xs : public WithTable {
 public:
  Iq4Xs() : WithTable(Format::iq4_xs, 8, quant::iq4_table, 8, 2) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return block.words(0, 2); }
  F32 scale(const std::vector<U32>& head, const Lane& lane) const override {
    U32 low = head[1] >> (lane.piece << 2u) & 15u, high = head[0] >> ((lane.piece << 1u) + 16u) & 3u;
    return low_f16(head[0]) * to_f32(bitcast<int32_t>(low | high << 4u) - 32);
  }
};

class Mxfp4 : public WithTable {
 public:
  Mxfp4() : WithTable(Format::mxfp4, 1, quant::mxfp4_table, 1, 1) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.byte(0)}; }
  F32 scale(const std::vector<U32>& head, const Lane&) const override {
    U32 e = head[0];  // 2^(e - 128); below 2 that is subnormal
    U32 subnormal = (e << 21u) + 0x00200000u;
    return bitcast<float>(select(e < 2u, subnormal, (e - 1u) << 23u));
  }
};

// A run has its own scale and eight bytes: two words, low nibbles first.
class Nvfp4 : public BlockFormat {
 public:
  Nvfp4()
      : BlockFormat(Format::nvfp4,
                    {.align = 4, .values_per_min = 0, .shared_head = 1, .apart = 16, .fields = {4, 32}}) {}

  U32 first(const Lane& lane) const override { return lane.piece * 32u; }
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.word(0)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    check(lane.words == 4, "nvfp4 has no narrow lanes");
    return block.words(4, 4, lane.piece * 16u);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs;
    for (uint32_t i = 0; i < 2; ++i) {
      U32 bits = raw.head[0] >> (lane.piece * 16u + 8 * i) & 255u;
      U32 magnitude = select(bits == 0x7fu, ptx::detail::constant(bits.rec, 0u, {}), bits & 0x7fu);
      F32 subnormal = to_f32(magnitude) * 0x1p-10f, normal = bitcast<float>((magnitude << 20u) + (119u << 23));
      auto [low0, high0] = look_up(quant::mxfp4_table, raw.quants[2 * i]);
      auto [low1, high1] = look_up(quant::mxfp4_table, raw.quants[2 * i + 1]);
      runs[i] = {.q = {low0, low1, high0, high1},
                 .scale = select(magnitude < 8u, subnormal, normal),
                 .min = {},
                 .has_min = false};
    }
    return runs;
  }
};

}  // namespace

const BlockFormat* block_with_table(Format format) {
  static const Iq4Nl iq4_nl;
  static const Iq4Xs iq4_xs;
  static const Mxfp4 mxfp4;
  static const Nvfp4 nvfp4;
  switch (format) {
    case Format::iq4_nl:
      return &iq4_nl;
    case Format::iq4_xs:
      return &iq4_xs;
    case Format::mxfp4:
      return &mxfp4;
    case Format::nvfp4:
      return &nvfp4;
    default:
      return nullptr;
  }
}

}  // namespace heddle::kernels

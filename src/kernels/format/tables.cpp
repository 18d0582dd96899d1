// Nibbles that name an entry of a table: iq4_nl, iq4_xs, mxfp4. quant/tables.cpp has the layouts. The table is four
// words of immediates that byte permutes choose from: no access to memory.
#include "quant/tables.h"

#include "kernels/format/block_format.h"
#include "kernels/format/words.h"

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
  // low and high nibbles take turns in them
  return {permute_bytes(four[0], four[1], 0x6420u), permute_bytes(four[0], four[1], 0x7531u)};
}

class WithTable : public BlockFormat {
 public:
  WithTable(Format format, uint32_t block_align, const int8_t* entries, uint32_t head, uint32_t head_words)
      : BlockFormat(format, {.align = block_align, .values_per_min = 0, .shared_head = head_words, .apart = 16}),
        table(entries),
        head_bytes(head) {}

  U32 first(const Lane& lane) const override { return lane.piece * 32u + lane.quarter * 4u; }
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto at = block + (lane.piece * 16u + lane.quarter * 4u);
    return load_words(at.offset(head_bytes), lane.words, align, how);
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
  uint32_t head_bytes;
};

class Iq4Nl : public WithTable {
 public:
  Iq4Nl() : WithTable(Format::iq4_nl, 2, quant::iq4_table, 2, 1) {}
  std::vector<U32> load_head(Global<uint8_t> block, const Lane&, Access how) const override {
    return {load_half(block, how)};
  }
  F32 scale(const std::vector<U32>& head, const Lane&) const override { return low_f16(head[0]); }
};

// Piece l is the 32 values of scale l.
class Iq4Xs : public WithTable {
 public:
  Iq4Xs() : WithTable(Format::iq4_xs, 8, quant::iq4_table, 8, 2) {}
  std::vector<U32> load_head(Global<uint8_t> block, const Lane&, Access how) const override {
    return load_words(block, 2, align, how);
  }
  F32 scale(const std::vector<U32>& head, const Lane& lane) const override {
    U32 low = head[1] >> (lane.piece << 2u) & 15u, high = head[0] >> ((lane.piece << 1u) + 16u) & 3u;
    return low_f16(head[0]) * to_f32(bitcast<int32_t>(low | high << 4u) - 32);
  }
};

class Mxfp4 : public WithTable {
 public:
  Mxfp4() : WithTable(Format::mxfp4, 1, quant::mxfp4_table, 1, 1) {}
  std::vector<U32> load_head(Global<uint8_t> block, const Lane&, Access how) const override {
    return {load(block, how)};
  }
  F32 scale(const std::vector<U32>& head, const Lane&) const override {
    U32 e = head[0];  // 2^(e - 128); below 2 that is subnormal
    U32 subnormal = (e << 21u) + 0x00200000u;
    return bitcast<float>(select(e < 2u, subnormal, (e - 1u) << 23u));
  }
};

}  // namespace

const BlockFormat* block_with_table(Format format) {
  static const Iq4Nl iq4_nl;
  static const Iq4Xs iq4_xs;
  static const Mxfp4 mxfp4;
  switch (format) {
    case Format::iq4_nl:
      return &iq4_nl;
    case Format::iq4_xs:
      return &iq4_xs;
    case Format::mxfp4:
      return &mxfp4;
    default:
      return nullptr;
  }
}

}  // namespace heddle::kernels

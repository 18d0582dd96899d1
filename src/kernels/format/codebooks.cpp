// Quants that index a codebook: grids of vectors (iq1_s to iq3_s) and tables of 16 values (iq4, mxfp4, nvfp4).
#include "kernels/format/block_format.h"
#include "quant/grid_codes.h"
#include "quant/tables.h"

namespace heddle::kernels {

using namespace ptx;
using quant::Format;

// Super-blocks of 256 values with quants that index a codebook: iq1_s to iq3_s. quant/decode_grids.cpp has the layouts.
// Piece l is values 32 l to 32 l + 31, as two adjacent runs of 16.

namespace {

constexpr int8_t iq2_levels[] = {8, 25, 43};
constexpr int8_t iq3_xxs_levels[] = {4, 12, 20, 28, 36, 44, 52, 62}, iq3_s_levels[] = {1, 3, 5, 7, 9, 11, 13, 15};

// Entries as int8: eight values are two words, four are one.
template <size_t entries, size_t levels>
std::vector<uint32_t> expand(const uint16_t (&codes)[entries], const int8_t (&level)[levels], uint32_t values) {
  const uint32_t bits = values == 8 ? 2 : 3;
  std::vector<uint32_t> words;
  for (uint16_t code : codes)
    for (uint32_t word = 0; word < values / 4; ++word) {
      uint32_t w = 0;
      for (uint32_t i = 0; i < 4; ++i)
        w |= uint32_t(level[code >> bits * (4 * word + i) & ((1u << bits) - 1)]) << 8 * i;
      words.push_back(w);
    }
  return words;
}

// Negates the bytes of a word (none is 0) whose bit of four is set.
U32 with_signs(U32 word, U32 four) {
  U32 negative = bits_to_bytes(four);
  return (word ^ negative * 255u) + negative;
}
// 7 bits of signs stand for 8: the last one makes their number even.
U32 eight_signs(U32 seven) { return seven | popcount(seven) << 7u; }
// (n + 1/2) / 4 for n of 4 bits, and so on, are exact.
F32 scale_of(U32 d, U32 bits, float factor) { return low_f16(d) * factor * (to_f32(bits) + 0.5f); }

class GridFormat : public BlockFormat {
 public:
  GridFormat(Format format, std::vector<uint32_t> block_fields, std::vector<uint32_t> words)
      : BlockFormat(format, {.fields = std::move(block_fields)}), book_(std::move(words)) {}

  std::vector<uint32_t> book() const override { return book_; }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs;
    for (uint32_t i = 0; i < 2; ++i) runs[i] = {.q = {}, .scale = scale(raw, lane, i), .min = {}, .has_min = false};
    for (uint32_t e = 0; e < 4; ++e)
      for (U32 word : eight(raw, lane, e)) runs[e / 2].q.push_back(word);
    return runs;
  }

 protected:
  virtual F32 scale(const Raw& raw, const Lane& lane, uint32_t run) const = 0;
  // Eight values as int8.
  virtual std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const = 0;

  static std::array<U32, 2> signed_entry(const Lane& lane, U32 index, U32 signs) {
    auto [low, high] = lane.book.pair(index);
    return {with_signs(low, signs & 15u), with_signs(high, signs >> 4u & 15u)};
  }

 private:
  std::vector<uint32_t> book_;
};

class Iq2Xxs : public GridFormat {
 public:
  Iq2Xxs() : GridFormat(Format::iq2_xxs, {2, 64}, expand(quant::iq2_xxs_codes, iq2_levels, 8)) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(0)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return block.words(2, 2, lane.piece * 8u);
  }
  F32 scale(const Raw& raw, const Lane&, uint32_t) const override {
    return scale_of(raw.head[0], raw.quants[1] >> 28u, 0.25f);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    return signed_entry(lane, raw.quants[0] >> 8 * e & 255u, eight_signs(raw.quants[1] >> 7 * e & 127u));
  }
};

class Iq2Xs : public GridFormat {
 public:
  Iq2Xs() : GridFormat(Format::iq2_xs, {2, 64, 8}, expand(quant::iq2_xs_codes, iq2_levels, 8)) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    return {block.half(0), block.byte(66, lane.piece)};
  }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return block.words(2, 2, lane.piece * 8u);
  }
  F32 scale(const Raw& raw, const Lane&, uint32_t run) const override {
    return scale_of(raw.head[0], raw.head[1] >> 4 * run & 15u, 0.25f);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    U32 q = raw.quants[e / 2] >> 16 * (e % 2);
    return signed_entry(lane, q & 511u, eight_signs(q >> 9u & 127u));
  }
};

class Iq2S : public GridFormat {
 public:
  Iq2S() : GridFormat(Format::iq2_s, {2, 32, 32, 8, 8}, expand(quant::iq2_s_codes, iq2_levels, 8)) {}
  // d, the scales, two high bits of each entry
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    return {block.half(0), block.byte(74, lane.piece), block.byte(66, lane.piece)};
  }
  // entries, signs
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    U32 at = lane.piece * 4u;
    return {block.word(2, at), block.word(34, at)};
  }
  F32 scale(const Raw& raw, const Lane&, uint32_t run) const override {
    return scale_of(raw.head[0], raw.head[1] >> 4 * run & 15u, 0.25f);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    U32 index = (raw.quants[0] >> 8 * e & 255u) | (raw.head[2] >> 2 * e & 3u) << 8u;
    return signed_entry(lane, index, raw.quants[1] >> 8 * e);
  }
};

class Iq3Xxs : public GridFormat {
 public:
  Iq3Xxs() : GridFormat(Format::iq3_xxs, {2, 64, 32}, expand(quant::iq3_xxs_codes, iq3_xxs_levels, 4)) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(0)}; }
  // entries, signs and scale
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    auto words = block.words(2, 2, lane.piece * 8u);
    words.push_back(block.word(66, lane.piece * 4u));
    return words;
  }
  F32 scale(const Raw& raw, const Lane&, uint32_t) const override {
    return scale_of(raw.head[0], raw.quants[2] >> 28u, 0.5f);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    U32 two = raw.quants[e / 2] >> 16 * (e % 2), signs = eight_signs(raw.quants[2] >> 7 * e & 127u);
    return {with_signs(lane.book.word(two & 255u), signs & 15u),
            with_signs(lane.book.word(two >> 8u & 255u), signs >> 4u & 15u)};
  }
};

class Iq3S : public GridFormat {
 public:
  Iq3S() : GridFormat(Format::iq3_s, {2, 64, 8, 32, 4}, expand(quant::iq3_s_codes, iq3_s_levels, 4)) {}
  // d, scales of two pieces, the ninth bit of each entry
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    return {block.half(0), block.byte(106, lane.piece >> 1u), block.byte(66, lane.piece)};
  }
  // entries, signs
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    auto words = block.words(2, 2, lane.piece * 8u);
    words.push_back(block.word(74, lane.piece * 4u));
    return words;
  }
  F32 scale(const Raw& raw, const Lane& lane, uint32_t) const override {
    return low_f16(raw.head[0]) * to_f32((raw.head[1] >> ((lane.piece & 1u) * 4u) & 15u) * 2u + 1u);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    std::array<U32, 2> words;
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t four = 2 * e + i;
      U32 index = (raw.quants[four / 4] >> 8 * (four % 4) & 255u) | (raw.head[2] >> four & 1u) << 8u;
      words[i] = with_signs(lane.book.word(index), raw.quants[2] >> 4 * four & 15u);
    }
    return words;
  }
};

// Entries of -1, 0 and 1, plus a shift of +-1/8: as int8, eight times that. The codebook is stored as the format
// defines it, with 2 bits per value: 4 KB, where bytes would take 16.
class Shifted : public GridFormat {
 public:
  Shifted(Format format, std::vector<uint32_t> block_fields) : GridFormat(format, std::move(block_fields), codes()) {}

 protected:
  static std::array<U32, 2> shifted_entry(const Lane& lane, U32 index, Pred negative) {
    U32 code = lane.book.half(index);
    // 8 * (code - 1) +- 1 is 8 * code - 7 or - 9, with 128 more for no byte to borrow
    U32 less =
        select(negative, ptx::detail::constant(code.rec, (128u - 9) * 0x01010101u, {}), (128u - 7) * 0x01010101u);
    auto four = [&](U32 eight_bits) { return (pairs_to_bytes(eight_bits) * 8u + less) ^ 0x80808080u; };
    return {four(code & 255u), four(code >> 8u)};
  }

 private:
  static std::vector<uint32_t> codes() {
    std::vector<uint32_t> words;
    for (size_t i = 0; i < std::size(quant::iq1_codes); i += 2)
      words.push_back(quant::iq1_codes[i] | uint32_t(quant::iq1_codes[i + 1]) << 16);
    return words;
  }
};

class Iq1S : public Shifted {
 public:
  Iq1S() : Shifted(Format::iq1_s, {2, 32, 16}) {}
  // d; high bits of the entries, scale and sign of the shift
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    return {block.half(0), block.half(34, lane.piece * 2u)};
  }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return {block.word(2, lane.piece * 4u)};
  }
  F32 scale(const Raw& raw, const Lane&, uint32_t) const override {
    return low_f16(raw.head[0]) * 0.125f * to_f32((raw.head[1] >> 12u & 7u) * 2u + 1u);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    U32 index = (raw.quants[0] >> 8 * e & 255u) | (raw.head[1] >> 3 * e & 7u) << 8u;
    return shifted_entry(lane, index, (raw.head[1] & 0x8000u) != 0u);
  }
};

class Iq1M : public Shifted {
 public:
  Iq1M() : Shifted(Format::iq1_m, {32, 16, 8}) {}
  // the scales of the block; four times 3 high bits of an entry and the sign of its shift
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    auto head = block.words(48, 2);
    head.push_back(block.half(32, lane.piece * 2u));
    return head;
  }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return {block.word(0, lane.piece * 4u)};
  }
  F32 scale(const Raw& raw, const Lane& lane, uint32_t run) const override {
    auto nibbles = [&](uint32_t i) {  // the high ones of both halves of a word, side by side
      return (raw.head[i] >> 12u & 15u) | (raw.head[i] >> 24u & 0xf0u);
    };
    U32 word = select(lane.piece < 4u, raw.head[0], raw.head[1]);
    U32 bits = word >> ((lane.piece & 2u) * 8u + (lane.piece & 1u) * 6u + 3 * run) & 7u;
    return low_f16(nibbles(0) | nibbles(1) << 8u) * 0.125f * to_f32(bits * 2u + 1u);
  }
  std::array<U32, 2> eight(const Raw& raw, const Lane& lane, uint32_t e) const override {
    U32 nibble = raw.head[2] >> 4 * e;
    return shifted_entry(lane, (raw.quants[0] >> 8 * e & 255u) | (nibble & 7u) << 8u, (nibble & 8u) != 0u);
  }
};

}  // namespace

const BlockFormat* block_with_grid(Format format) {
  static const Iq1S iq1_s;
  static const Iq1M iq1_m;
  static const Iq2Xxs iq2_xxs;
  static const Iq2Xs iq2_xs;
  static const Iq2S iq2_s;
  static const Iq3Xxs iq3_xxs;
  static const Iq3S iq3_s;
  switch (format) {
    case Format::iq1_s:
      return &iq1_s;
    case Format::iq1_m:
      return &iq1_m;
    case Format::iq2_xxs:
      return &iq2_xxs;
    case Format::iq2_xs:
      return &iq2_xs;
    case Format::iq2_s:
      return &iq2_s;
    case Format::iq3_xxs:
      return &iq3_xxs;
    case Format::iq3_s:
      return &iq3_s;
    default:
      return nullptr;
  }
}

// Nibbles that index a table: iq4_nl, iq4_xs, mxfp4, nvfp4. quant/decode_blocks.cpp has the layouts. The table is four
// words of immediates that byte permutes select from, without memory accesses.

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
  WithTable(Format format, const int8_t* entries, uint32_t head)
      : BlockFormat(format, {.fields = {head, quant::block_bytes(format) - head}}), table(entries) {}

  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return block.words(fields[0], 4, lane.piece * 16u);
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
  Iq4Nl() : WithTable(Format::iq4_nl, quant::iq4_table, 2) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(0)}; }
  F32 scale(const std::vector<U32>& head, const Lane&) const override { return low_f16(head[0]); }
};

// Piece l is the 32 values of scale l.
class Iq4Xs : public WithTable {
 public:
  Iq4Xs() : WithTable(Format::iq4_xs, quant::iq4_table, 8) {}
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return block.words(0, 2); }
  F32 scale(const std::vector<U32>& head, const Lane& lane) const override {
    U32 low = head[1] >> (lane.piece << 2u) & 15u, high = head[0] >> ((lane.piece << 1u) + 16u) & 3u;
    return low_f16(head[0]) * to_f32(bitcast<int32_t>(low | high << 4u) - 32);
  }
};

class Mxfp4 : public WithTable {
 public:
  Mxfp4() : WithTable(Format::mxfp4, quant::mxfp4_table, 1) {}
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
  Nvfp4() : BlockFormat(Format::nvfp4, {.fields = {4, 32}}) {}

  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.word(0)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
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

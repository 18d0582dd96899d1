// Tiles for smmla, which multiplies a 2x8 by an 8x2 matrix of int8. A vector holds eight values of each of two weight
// rows, so a tile of eight rows has four such pairs. cpu/pack_pairs.cpp writes them.
//
// Weights come in sets: some vectors that are packed together. weights<i>(at, set, p) is vector i of a set, values
// 8 i to 8 i + 7 of the rows 2 p and 2 p + 1, times 2^shift. scale<n>(at, g, p) is the scale of group g (of n == 2: and
// of the next) for the lanes of a product: row 2 p twice, row 2 p + 1 twice.
#pragma once
#include "cpu/isa.h"
#include "cpu/vectors_neon.h"
#include "quant/tables.h"

namespace heddle::cpu {
namespace {

constexpr int pairs_of_tile = 4, rows_of_pairs = 8;

// Two rows in turn, eight bytes of each; sixteen bytes every `step`.
HEDDLE_INLINE void write_pair(const int8_t* x0, const int8_t* x1, uint64_t bytes, uint8_t* to, uint64_t step) {
  for (uint64_t i = 0; i < bytes; i += 16, to += 2 * step) {
    const auto a = load<int64x2_t>(x0 + i), b = load<int64x2_t>(x1 + i);
    store(to, vzip1q_s64(a, b));
    store(to + step, vzip2q_s64(a, b));
  }
}

// Rows are multiplied in groups of up to `limit` pairs, about as many in each: `max` in the largest. The last row may
// have no other.
constexpr uint32_t written_pairs = 20;  // at a time
struct Groups {
  uint32_t pairs_of_all, count, max;
  Groups(uint32_t rows, uint32_t limit)
      : pairs_of_all((rows + 1) / 2),
        count((pairs_of_all + limit - 1) / limit),
        max((pairs_of_all + count - 1) / count) {}
  uint32_t first(uint32_t g) const { return uint32_t(uint64_t(pairs_of_all) * g / count); }
  uint32_t row(uint32_t g) const { return 2 * first(g); }
  uint32_t pairs(uint32_t g) const { return first(g + 1) - first(g); }
  // Of those that are written at a time, from g on.
  uint32_t end(uint32_t g) const { return g + written_pairs / max < count ? g + written_pairs / max : count; }
};

// Field `field` in bytes per row, its unit `index` of eight bytes, for the pair p.
HEDDLE_INLINE uint8x16_t unit_of_pair(const uint8_t* at, int field, int index, int p) {
  return load<uint8x16_t>(at + (field + 8 * index) * rows_of_pairs + 16 * p);
}
// Four f16 of rows 4 h to 4 h + 3.
HEDDLE_INLINE float32x4_t four_halves(const uint8_t* at, int field, int h) {
  return Neon::half(at + field * rows_of_pairs + 8 * h);
}

// Where the bytes of scales go: byte 0 of each word, and for signed ones their signs (table entries 16 and up) above.
struct ScalePlaces {
  alignas(16) uint8_t same[8][16], two[4][16], signed_same[8][16], signed_two[4][16];
};
constexpr ScalePlaces scale_places = [] {
  ScalePlaces places{};
  for (int g = 0; g < 8; ++g)
    for (int i = 0; i < 16; ++i) {
      const int lane = i / 4, byte = i % 4;
      const int same = lane / 2 * 8 + g, two = lane / 2 * 8 + g / 2 * 2 + lane % 2;
      places.same[g][i] = uint8_t(byte == 0 ? same : 255);
      places.signed_same[g][i] = uint8_t(byte == 0 ? same : same + 16);
      places.two[g / 2][i] = uint8_t(byte == 0 ? two : 255);
      places.signed_two[g / 2][i] = uint8_t(byte == 0 ? two : two + 16);
    }
  return places;
}();
template <int n>
HEDDLE_INLINE int32x4_t scale_from(uint8x16_t bytes, int g) {
  const uint8_t* places = n == 1 ? scale_places.same[g] : scale_places.two[g / 2];
  return vreinterpretq_s32_u8(vqtbl1q_u8(bytes, load<uint8x16_t>(places)));
}
template <int n>
HEDDLE_INLINE int32x4_t signed_scale_from(uint8x16_t bytes, int g) {
  const uint8x16_t signs = vcltzq_s8(vreinterpretq_s8_u8(bytes));
  const uint8_t* places = n == 1 ? scale_places.signed_same[g] : scale_places.signed_two[g / 2];
  return vreinterpretq_s32_u8(vqtbl2q_u8({bytes, signs}, load<uint8x16_t>(places)));
}

// Beyond `max_rows_of_packed` rows weights are unpacked to memory.

// Blocks of 256 values, in groups of 32 but where it is said, two groups to a set.
struct PairsOf256 {
  static constexpr int values = 256, group = 32, groups = 8, shift = 0;
  static constexpr uint32_t max_rows_of_packed = 10;
  static constexpr bool mins = false, is_unsigned = false, is_packed = true, halves_from_nibbles = false;
};
// Blocks of 32 values, one set each.
struct PairsOf32 {
  static constexpr int values = 32, group = 32, groups = 1, shift = 0;
  static constexpr uint32_t max_rows_of_packed = 10;
  static constexpr bool mins = false, is_unsigned = false, is_packed = true, halves_from_nibbles = false;
};

// f16 d | f16 m | 8 scales | 8 mins | ...
struct PairsWithMins : PairsOf256 {
  static constexpr bool mins = true, is_unsigned = true;
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return four_halves(at, 0, h); }
  static HEDDLE_INLINE float32x4_t m(const uint8_t* at, int h) { return four_halves(at, 2, h); }
  template <int n>
  static HEDDLE_INLINE int32x4_t scale(const uint8_t* at, int g, int p) {
    return scale_from<n>(unit_of_pair(at, 4, 0, p), g);
  }
  static HEDDLE_INLINE uint8x16_t min_bytes(const uint8_t* at, int p) { return unit_of_pair(at, 12, 0, p); }
};

struct PairsQ4_k : PairsWithMins {
  static constexpr int bytes = 148;
  static constexpr uint32_t max_rows_of_packed = 20;
  static constexpr bool halves_from_nibbles = true;  // one_row_of_nibbles takes it
  static HEDDLE_INLINE uint8x16_t nibbles(const uint8_t* at, int set, int i, int p) {
    return unit_of_pair(at, 20, set * 4 + i, p);
  }
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int set, int p) {
    const uint8x16_t both = nibbles(at, set, i % 4, p);
    return i < 4 ? both & uint8_t(15) : both >> 4;
  }
};

// Of eight vectors five have their values in the low bits of five bytes; the others are in the three bits above:
// number 5 in those of bytes 0 and 1, number 6 in those of 2 and 3, number 7 in those of 4 and the lowest of 1 and 3.
// All are moved to the upper five bits.
struct PairsQ5_k : PairsWithMins {
  static constexpr int bytes = 180, shift = 3;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int set, int p) {
    const auto byte = [&](int index) HEDDLE_INLINE_LAMBDA { return unit_of_pair(at, 20, set * 5 + index, p); };
    if constexpr (i < 5) return byte(i) << 3;
    if constexpr (i < 7) return vsriq_n_u8(byte(i * 2 - 10), byte(i * 2 - 9), 3) & uint8_t(0xf8);
    return vsriq_n_u8(vsriq_n_u8(byte(4), byte(1) << 2, 3), byte(3) << 2, 4) & uint8_t(0xf8);
  }
};

// Signed values of six bits: of four vectors three are in the upper bits of three bytes, the last in the bits below.
struct PairsQ6_k : PairsOf256 {
  static constexpr int bytes = 210, group = 16, groups = 16, shift = 2;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int set, int p) {
    const auto byte = [&](int index) HEDDLE_INLINE_LAMBDA { return unit_of_pair(at, 18, set * 3 + index, p); };
    if constexpr (i < 3) return byte(i) & uint8_t(0xfc);
    return vsliq_n_u8(vsliq_n_u8(byte(2) << 2, byte(1), 4), byte(0), 6);
  }
  template <int n>
  static HEDDLE_INLINE int32x4_t scale(const uint8_t* at, int g, int p) {
    return signed_scale_from<n>(unit_of_pair(at, 2, g / 8, p), g % 8);
  }
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return four_halves(at, 0, h); }
};

struct PairsIq4_xs : PairsOf256 {
  static constexpr int bytes = 138;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int set, int p) {
    const uint8x16_t both = unit_of_pair(at, 10, set * 4 + i / 4 * 2 + i % 2, p);
    return Neon::table(i % 4 < 2 ? both & uint8_t(15) : both >> 4, quant::iq4_table);
  }
  template <int n>
  static HEDDLE_INLINE int32x4_t scale(const uint8_t* at, int g, int p) {
    return signed_scale_from<n>(unit_of_pair(at, 2, 0, p), g);
  }
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return four_halves(at, 0, h); }
};

struct PairsQ8_0 : PairsOf32 {
  static constexpr int bytes = 34;
  static constexpr uint32_t max_rows_of_packed = 16;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int, int p) {
    return unit_of_pair(at, 2, i, p);
  }
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return four_halves(at, 0, h); }
};

// Signed nibbles, moved to the upper four bits.
struct PairsQ4_0 : PairsOf32 {
  static constexpr int bytes = 18, shift = 4;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int, int p) {
    const uint8x16_t both = unit_of_pair(at, 2, i % 2, p);
    return i < 2 ? both << 4 : both & uint8_t(0xf0);
  }
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return four_halves(at, 0, h); }
};

struct PairsIq4_nl : PairsOf32 {
  static constexpr int bytes = 18;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int, int p) {
    const uint8x16_t both = unit_of_pair(at, 2, i % 2, p);
    return Neon::table(i < 2 ? both & uint8_t(15) : both >> 4, quant::iq4_table);
  }
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) { return four_halves(at, 0, h); }
};

struct PairsMxfp4 : PairsOf32 {
  static constexpr int bytes = 17, shift = 1;
  template <int i>
  static HEDDLE_INLINE uint8x16_t weights(const uint8_t* at, int, int p) {
    const uint8x16_t both = unit_of_pair(at, 1, i % 2, p);
    return Neon::table(i < 2 ? both & uint8_t(15) : both >> 4, quant::mxfp4_table);
  }
  // 2^(e - 127); the lowest is subnormal.
  static HEDDLE_INLINE float32x4_t d(const uint8_t* at, int h) {
    alignas(16) static constexpr uint8_t places[16] = {255, 255, 255, 0, 255, 255, 255, 1,
                                                       255, 255, 255, 2, 255, 255, 255, 3};
    const uint8x16_t four = vreinterpretq_u8_u32(vld1q_dup_u32((const uint32_t*)(at + 4 * h)));
    const uint32x4_t bits = vreinterpretq_u32_u8(vqtbl1q_u8(four, load<uint8x16_t>(places))) >> 1;
    return vreinterpretq_f32_u32(vmaxq_u32(bits, vdupq_n_u32(0x00400000)));
  }
};

}  // namespace
}  // namespace heddle::cpu

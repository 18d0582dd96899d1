// Super-blocks of 256 values: q2_k to q6_k. quant/super_blocks.cpp has the layouts.
#include "kernels/format/block_format.h"
#include "kernels/format/words.h"

namespace heddle::kernels {

using namespace ptx;
using quant::Format;

namespace {

// q4_k and q5_k: piece l is half of a sub-block in the low nibbles of 16 bytes and the same half of the next sub-block
// in their high nibbles. The two sub-blocks are 2c and 2c + 1 with c = l / 2.
class Q4K : public BlockFormat {
 public:
  explicit Q4K(bool five)
      : BlockFormat(five ? Format::q5_k : Format::q4_k,
                    {.align = 16, .values_per_min = 32, .shared_head = 4, .apart = 32}),
        five_bits(five) {}

  U32 first(const Lane& lane) const override {
    return (lane.piece >> 1u) * 64u + (lane.piece & 1u) * 16u + lane.quarter * 4u;
  }
  // d and dmin, then the three words of 6-bit scales and mins
  std::vector<U32> load_head(Global<uint8_t> block, const Lane&, Access how) const override {
    return load_words(block, 4, align, how);
  }
  // nibbles, then the words with the fifth bits
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto at = block + (lane.piece * 16u + lane.quarter * 4u);
    auto words = load_words(at.offset(five_bits ? 48 : 16), lane.words, align, how);
    if (five_bits) {
      auto bits_at = block + ((lane.piece & 1u) * 16u + lane.quarter * 4u);
      for (U32 w : load_words(bits_at.offset(16), lane.words, align, how)) words.push_back(w);
    }
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw, lane);
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t i = 0; i < lane.words; ++i) {
        U32 q = raw.quants[i] >> 4 * half & 0x0f0f0f0fu;
        if (five_bits) {
          U32 bits = raw.quants[lane.words + i] >> (lane.piece & 6u);  // bit 0 is that of sub-block 2c
          q = q | (bits << (half ? 3u : 4u) & 0x10101010u);
        }
        runs[half].q.push_back(q);
      }
    return runs;
  }
  // The high nibbles stay where they are, 16 times too large.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    if (five_bits) return decode(raw, lane);
    std::array<Run, 2> runs = scales(raw, lane);
    runs[1].scale = runs[1].scale * 0x1p-4f;
    for (uint32_t i = 0; i < lane.words; ++i) {
      runs[0].q.push_back(raw.quants[i] & 0x0f0f0f0fu);
      runs[1].q.push_back(raw.quants[i] & 0xf0f0f0f0u);
    }
    return runs;
  }

 private:
  // Runs with scale and min.
  static std::array<Run, 2> scales(const Raw& raw, const Lane& lane) {
    // the scales, and the mins, of both sub-blocks side by side in 16 bits; the upper four borrow two bits each
    U32 shift = (lane.piece & 2u) << 3u;
    U32 a = raw.head[1] >> shift, b = raw.head[2] >> shift, c = raw.head[3] >> shift;
    Pred lower = lane.piece < 4u;
    auto choose = [&](uint32_t yes, uint32_t no) { return select(lower, ptx::detail::constant(c.rec, yes, {}), no); };
    U32 own = choose(0x3f3f, 0x0f0f), borrowed = choose(0, 0x3030);
    U32 scale = (select(lower, a, c) & own) | (a >> 2u & borrowed);
    U32 min = (select(lower, b, c >> 4u) & own) | (b >> 2u & borrowed);
    F32 d = low_f16(raw.head[0]), dmin = high_f16(raw.head[0]);
    std::array<Run, 2> runs;
    for (uint32_t half = 0; half < 2; ++half)
      runs[half] = {.q = {},
                    .scale = d * (byte_above_2_23(scale, half) - 0x1p23f),
                    .min = dmin * (byte_above_2_23(min, half) - 0x1p23f),
                    .has_min = true};
    return runs;
  }
  bool five_bits;
};

// q2_k and q3_k: piece l = 4n + 2p + h takes 16 bytes h of half n, and of their four pairs of bits pairs 2p and 2p + 1.
class TwoBits : public BlockFormat {
 public:
  using BlockFormat::BlockFormat;

  U32 first(const Lane& lane) const override {
    return (lane.piece >> 1u) * 64u + (lane.piece & 1u) * 16u + lane.quarter * 4u;
  }

 protected:
  static std::vector<U32> pairs(Global<uint8_t> block, const Lane& lane, uint32_t offset, uint32_t align, Access how) {
    U32 at = (lane.piece >> 2u) * 32u + (lane.piece & 1u) * 16u + lane.quarter * 4u;
    return load_words((block + at).offset(offset), lane.words, align, how);
  }
  static U32 pair(U32 word, const Lane& lane, uint32_t half) {
    return word >> ((lane.piece & 2u) << 1u) >> 2 * half & 0x03030303u;
  }
  // The number of the 16 values of the lane's first run; that of the second is 2 more.
  static U32 sixteenth(const Lane& lane) { return (lane.piece >> 1u) * 4u + (lane.piece & 1u); }
};

class Q2K : public TwoBits {
 public:
  Q2K() : TwoBits(Format::q2_k, {.align = 4, .values_per_min = 16, .shared_head = 0, .apart = 32}) {}

  // d and dmin, the bytes with scale and min of either run
  std::vector<U32> load_head(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto scales = block + sixteenth(lane);
    return {load(block.offset(80).as<uint32_t>(), how), load(scales, how), load(scales.offset(2), how)};
  }
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    return pairs(block, lane, 16, align, how);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    F32 d = low_f16(raw.head[0]), dmin = high_f16(raw.head[0]);
    std::array<Run, 2> runs;
    for (uint32_t half = 0; half < 2; ++half) {
      U32 packed = raw.head[1 + half];
      runs[half] = {.q = {}, .scale = d * to_f32(packed & 15u), .min = dmin * to_f32(packed >> 4u), .has_min = true};
      for (U32 w : raw.quants) runs[half].q.push_back(pair(w, lane, half));
    }
    return runs;
  }
};

class Q3K : public TwoBits {
 public:
  Q3K() : TwoBits(Format::q3_k, {.align = 2, .values_per_min = 0, .shared_head = 0, .apart = 32}) {}

  // d, then for either run the byte with the low 4 bits of its scale and the byte with the high 2
  std::vector<U32> load_head(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto low = (block + (sixteenth(lane) & 7u)).offset(96), high = (block + (lane.piece & 1u)).offset(104);
    return {load_half(block.offset(108), how), load(low, how), load(low.offset(2), how), load(high, how),
            load(high.offset(2), how)};
  }
  // pairs of bits, then the words with the third bits
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto words = pairs(block, lane, 32, align, how);
    for (U32 w : load_words(block + ((lane.piece & 1u) * 16u + lane.quarter * 4u), lane.words, align, how))
      words.push_back(w);
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    F32 d = low_f16(raw.head[0]);
    std::array<Run, 2> runs;
    for (uint32_t half = 0; half < 2; ++half) {
      U32 low = raw.head[1 + half] >> (lane.piece & 4u) & 15u;
      U32 high = raw.head[3 + half] >> (lane.piece & 6u) & 3u;  // 2 bits for each four scales
      F32 scale = d * to_f32(bitcast<int32_t>(low | high << 4u) - 32);
      runs[half] = {.q = {}, .scale = scale, .min = {}, .has_min = false};
      for (uint32_t i = 0; i < lane.words; ++i) {
        U32 third = raw.quants[lane.words + i] >> (lane.piece & 6u);  // bit 0 is that of the first run
        U32 q = pair(raw.quants[i], lane, half) | (third << (half ? 1u : 2u) & 0x04040404u);
        runs[half].q.push_back(less_bias(q, 4));
      }
    }
    return runs;
  }
};

// Piece l = 4n + m takes 16 bytes m of the nibbles of half n: 16 values low, and those 64 further high.
class Q6K : public BlockFormat {
 public:
  Q6K() : BlockFormat(Format::q6_k, {.align = 2, .values_per_min = 0, .shared_head = 0, .apart = 64}) {}

  U32 first(const Lane& lane) const override {
    return (lane.piece >> 2u) * 128u + (lane.piece & 3u) * 16u + lane.quarter * 4u;
  }
  // d, the scales of both runs
  std::vector<U32> load_head(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto scales = (block + ((lane.piece >> 2u) * 8u + (lane.piece & 3u))).offset(192).as<int8_t>();
    return {load_half(block.offset(208), how), bitcast<uint32_t>(load(scales, how)),
            bitcast<uint32_t>(load(scales.offset(4), how))};
  }
  // nibbles, then the words with the upper two bits
  std::vector<U32> load_quants(Global<uint8_t> block, const Lane& lane, Access how) const override {
    auto words = load_words(block + (lane.piece * 16u + lane.quarter * 4u), lane.words, align, how);
    auto upper = block + ((lane.piece >> 2u) * 32u + (lane.piece & 1u) * 16u + lane.quarter * 4u);
    for (U32 w : load_words(upper.offset(128), lane.words, align, how)) words.push_back(w);
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = decode_unsigned(raw, lane);
    for (Run& run : runs) {
      for (U32& q : run.q) q = less_bias(q, 32);
      run.has_min = false;
    }
    return runs;
  }
  // 0 to 63, and 32 times the scale as the min.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    F32 d = low_f16(raw.head[0]);
    std::array<Run, 2> runs;
    for (uint32_t half = 0; half < 2; ++half) {
      F32 scale = d * (byte_above_2_23(raw.head[1 + half] ^ 128u, 0) - (0x1p23f + 128));
      runs[half] = {.q = {}, .scale = scale, .min = scale * 32.0f, .has_min = true};
      for (uint32_t i = 0; i < lane.words; ++i) {
        U32 upper = raw.quants[lane.words + i] >> (lane.piece & 2u);  // bits 0, 1 are the low run's, bits 4, 5 the high
        U32 q = (raw.quants[i] >> 4 * half & 0x0f0f0f0fu) | ((half ? upper : upper << 4u) & 0x30303030u);
        runs[half].q.push_back(q);
      }
    }
    return runs;
  }
};

}  // namespace

const BlockFormat* super_block(Format format) {
  static const Q2K q2_k;
  static const Q3K q3_k;
  static const Q4K q4_k(false), q5_k(true);
  static const Q6K q6_k;
  switch (format) {
    case Format::q2_k:
      return &q2_k;
    case Format::q3_k:
      return &q3_k;
    case Format::q4_k:
      return &q4_k;
    case Format::q5_k:
      return &q5_k;
    case Format::q6_k:
      return &q6_k;
    default:
      return nullptr;
  }
}

}  // namespace heddle::kernels

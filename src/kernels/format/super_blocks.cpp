// Super-blocks of 256 values: q2_k to q6_k, q8_k and tq2_0. quant/decode_super_blocks.cpp has the
// layouts, quant/decode_blocks.cpp that of tq2_0.
#include "kernels/format/block_format.h"

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
                    {.has_min = true,
                     .apart = 32,
                     .fields = five ? std::vector<uint32_t>{16, 32, 128} : std::vector<uint32_t>{16, 128}}),
        five_bits(five) {}

  U32 first(const Lane& lane) const override { return (lane.piece >> 1u) * 64u + (lane.piece & 1u) * 16u; }
  // d and dmin, then the three words of 6-bit scales and mins
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return block.words(0, 4); }
  // nibbles, then the words with the fifth bits
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    auto words = block.words(five_bits ? 48 : 16, 4, lane.piece * 16u);
    if (five_bits)
      for (U32 w : block.words(16, 4, (lane.piece & 1u) * 16u)) words.push_back(w);
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw, lane);
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t i = 0; i < 4; ++i) {
        U32 q = raw.quants[i] >> 4 * half & 0x0f0f0f0fu;
        if (five_bits) {
          U32 bits = raw.quants[4 + i] >> (lane.piece & 6u);  // bit 0 is that of sub-block 2c
          q = q | (bits << (half ? 3u : 4u) & 0x10101010u);
        }
        runs[half].q.push_back(q);
      }
    return runs;
  }
  // The high nibbles are not shifted, so they are 16 times too large; with a fifth bit they are shifted by 3 and twice
  // too large.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw, lane);
    if (five_bits) {
      runs[1].scale = runs[1].scale * 0.5f;
      for (uint32_t i = 0; i < 4; ++i) {
        // bit 4 is that of sub-block 2c, bit 5 that of 2c + 1
        U32 bits = rotate_left(raw.quants[4 + i], 4u - (lane.piece & 6u));
        runs[0].q.push_back((raw.quants[i] & 0x0f0f0f0fu) | (bits & 0x10101010u));
        runs[1].q.push_back((raw.quants[i] >> 3u & 0x1e1e1e1eu) | (bits & 0x20202020u));
      }
      return runs;
    }
    runs[1].scale = runs[1].scale * 0x1p-4f;
    for (uint32_t i = 0; i < 4; ++i) {
      runs[0].q.push_back(raw.quants[i] & 0x0f0f0f0fu);
      runs[1].q.push_back(raw.quants[i] & 0xf0f0f0f0u);
    }
    return runs;
  }

  // Four bits straight from the nibbles, without making bytes of them first, and scales of both runs at once in f16.
  std::vector<U32> halves(const Raw& raw, const Lane& lane, float factor) const override {
    if (five_bits) return BlockFormat::halves(raw, lane, factor);
    const Packed packed = packed_scales(raw, lane);
    auto above_1024 = [](U32 bytes) { return bitcast<f16x2>(permute_bytes(bytes, 0x64646464u, 0x4140u)); };
    // not by a permute: an operand of f16x2 arithmetic may be either half twice
    auto both = [](U32 word, uint32_t half) {
      F16 one = unpack<f16>(word)[half];
      return pack<f16x2>(one, one);
    };
    const uint32_t one = to_f16(factor).bits;
    F16x2 d = both(raw.head[0], 0) * f16x2{one << 16 | one},
          dmin = both(raw.head[0], 1) * f16x2{(one << 16 | one) ^ 0x80008000u};
    U32 scales = bitcast<uint32_t>((above_1024(packed.scale) - f16x2{0x64006400u}) * d);
    U32 mins = bitcast<uint32_t>((above_1024(packed.min) - f16x2{0x64006400u}) * dmin);
    std::vector<U32> all;
    for (uint32_t half = 0; half < 2; ++half) {
      F16x2 scale = both(scales, half), less = both(mins, half);
      for (U32 word : raw.quants)
        for (U32 w : {word, word >> 8u})
          all.push_back(bitcast<uint32_t>(fma(half ? high_nibbles(w) : low_nibbles(w), scale, less)));
    }
    return all;
  }

 private:
  // The scales, and the mins, of both sub-blocks side by side in 16 bits.
  struct Packed {
    U32 scale, min;
  };
  static Packed packed_scales(const Raw& raw, const Lane& lane) {
    // the upper four borrow two bits each
    U32 shift = (lane.piece & 2u) << 3u;
    U32 a = raw.head[1] >> shift, b = raw.head[2] >> shift, c = raw.head[3] >> shift;
    Pred lower = lane.piece < 4u;
    auto choose = [&](uint32_t yes, uint32_t no) { return select(lower, ptx::detail::constant(c.rec, yes, {}), no); };
    U32 own = choose(0x3f3f, 0x0f0f), borrowed = choose(0, 0x3030);
    U32 scale = (select(lower, a, c) & own) | (a >> 2u & borrowed);
    U32 min = (select(lower, b, c >> 4u) & own) | (b >> 2u & borrowed);
    return {scale, min};
  }
  // Runs with scale and min.
  static std::array<Run, 2> scales(const Raw& raw, const Lane& lane) {
    const auto [scale, min] = packed_scales(raw, lane);
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

// Piece l = 4n + m takes 16 bytes m of the nibbles of half n: 16 values low, and those 64 further high.
class Q6K : public BlockFormat {
 public:
  Q6K() : BlockFormat(Format::q6_k, {.apart = 64, .fields = {128, 64, 16, 2}}) {}

  U32 first(const Lane& lane) const override { return (lane.piece >> 2u) * 128u + (lane.piece & 3u) * 16u; }
  // d, the scales of both runs
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    U32 at = (lane.piece >> 2u) * 8u + (lane.piece & 3u);
    return {block.half(208), block.signed_byte(192, at), block.signed_byte(196, at)};
  }
  // nibbles, then the words with the upper two bits
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    auto words = block.words(0, 4, lane.piece * 16u);
    U32 upper = (lane.piece >> 2u) * 32u + (lane.piece & 1u) * 16u;
    for (U32 w : block.words(128, 4, upper)) words.push_back(w);
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
      for (uint32_t i = 0; i < 4; ++i) {
        U32 upper = raw.quants[4 + i] >> (lane.piece & 2u);  // bits 0, 1 are the low run's, bits 4, 5 the high
        U32 q = (raw.quants[i] >> 4 * half & 0x0f0f0f0fu) | ((half ? upper : upper << 4u) & 0x30303030u);
        runs[half].q.push_back(q);
      }
    }
    return runs;
  }
};

// Runs are 128 values apart, so that neighbouring lanes read neighbouring bytes. The sums of the block are implied by
// the int8.
class Q8K : public BlockFormat {
 public:
  Q8K() : BlockFormat(Format::q8_k, {.apart = 128, .fields = {4, 256, 32}}) {}

  U32 first(const Lane& lane) const override { return lane.piece * 16u; }
  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.word(0)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    U32 at = first(lane);
    auto words = block.words(4, 4, at);
    for (U32 w : block.words(132, 4, at)) words.push_back(w);
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane&) const override {
    Run run{.q = {}, .scale = bitcast<float>(raw.head[0]), .min = {}, .has_min = false};
    std::array<Run, 2> runs{run, run};
    for (uint32_t i = 0; i < 8; ++i) runs[i / 4].q.push_back(raw.quants[i]);
    return runs;
  }
};

}  // namespace

const BlockFormat* super_block(Format format) {
  static const Q4K q4_k(false), q5_k(true);
  static const Q6K q6_k;
  static const Q8K q8_k;
  switch (format) {
    case Format::q4_k:
      return &q4_k;
    case Format::q5_k:
      return &q5_k;
    case Format::q6_k:
      return &q6_k;
    case Format::q8_k:
      return &q8_k;
    default:
      return nullptr;
  }
}

// Two or three bits: q2_k, q3_k, tq2_0.

namespace {

// Piece l = 4n + 2p + h takes 16 bytes h of half n, and of their four pairs of bits pairs 2p and 2p + 1.
class TwoBits : public BlockFormat {
 public:
  using BlockFormat::BlockFormat;

  U32 first(const Lane& lane) const override { return (lane.piece >> 1u) * 64u + (lane.piece & 1u) * 16u; }

 protected:
  static std::vector<U32> pairs(const BlockBytes& block, const Lane& lane, uint32_t offset) {
    return block.words(offset, 4, (lane.piece >> 2u) * 32u + (lane.piece & 1u) * 16u);
  }
  // Of each byte the pair of the first run in bits 0 and 1, that of the second in bits 2 and 3.
  static U32 both_pairs(U32 word, const Lane& lane) { return word >> ((lane.piece & 2u) << 1u); }
  static U32 pair(U32 word, const Lane& lane, uint32_t half) {
    return both_pairs(word, lane) >> 2 * half & 0x03030303u;
  }
  // Not shifted: those of the second run are 4 times too large.
  static void put_pairs(std::array<Run, 2>& runs, const Raw& raw, const Lane& lane) {
    for (U32 w : raw.quants) {
      U32 two = both_pairs(w, lane);
      runs[0].q.push_back(two & 0x03030303u);
      runs[1].q.push_back(two & 0x0c0c0c0cu);
    }
  }
  // The number of the 16 values of the lane's first run; that of the second is 2 more.
  static U32 sixteenth(const Lane& lane) { return (lane.piece >> 1u) * 4u + (lane.piece & 1u); }
};

class Q2K : public TwoBits {
 public:
  Q2K() : TwoBits(Format::q2_k, {.has_min = true, .apart = 32, .fields = {16, 64, 4}}) {}

  // d and dmin, the bytes with scale and min of either run
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    U32 at = sixteenth(lane);
    return {block.word(80), block.byte(0, at), block.byte(2, at)};
  }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return pairs(block, lane, 16);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw);
    for (uint32_t half = 0; half < 2; ++half)
      for (U32 w : raw.quants) runs[half].q.push_back(pair(w, lane, half));
    return runs;
  }
  // Those of the second run are not shifted, so they are 4 times too large.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw);
    runs[1].scale = runs[1].scale * 0.25f;
    put_pairs(runs, raw, lane);
    return runs;
  }

 private:
  static std::array<Run, 2> scales(const Raw& raw) {
    F32 d = low_f16(raw.head[0]), dmin = high_f16(raw.head[0]);
    std::array<Run, 2> runs;
    for (uint32_t half = 0; half < 2; ++half) {
      U32 packed = raw.head[1 + half];
      runs[half] = {.q = {}, .scale = d * to_f32(packed & 15u), .min = dmin * to_f32(packed >> 4u), .has_min = true};
    }
    return runs;
  }
};

class Q3K : public TwoBits {
 public:
  Q3K() : TwoBits(Format::q3_k, {.apart = 32, .fields = {32, 64, 12, 2}}) {}

  // d, then for either run the byte with the low 4 bits of its scale and the byte with the high 2
  std::vector<U32> load_head(const BlockBytes& block, const Lane& lane) const override {
    U32 low = sixteenth(lane) & 7u, high = lane.piece & 1u;
    return {block.half(108), block.byte(96, low), block.byte(98, low), block.byte(104, high), block.byte(106, high)};
  }
  // pairs of bits, then the words with the third bits
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    auto words = pairs(block, lane, 32);
    for (U32 w : block.words(0, 4, (lane.piece & 1u) * 16u)) words.push_back(w);
    return words;
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw, lane);
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t i = 0; i < 4; ++i) {
        U32 third = raw.quants[4 + i] >> (lane.piece & 6u);  // bit 0 is that of the first run
        U32 q = pair(raw.quants[i], lane, half) | (third << (half ? 1u : 2u) & 0x04040404u);
        runs[half].q.push_back(less_bias(q, 4));
      }
    return runs;
  }
  // 0 to 7, and 4 times the scale as the min; in the second run 4 times too large.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    std::array<Run, 2> runs = scales(raw, lane);
    for (Run& run : runs) {
      run.min = run.scale * 4.0f;
      run.has_min = true;
    }
    runs[1].scale = runs[1].scale * 0.25f;
    for (uint32_t i = 0; i < 4; ++i) {
      U32 two = both_pairs(raw.quants[i], lane), third = raw.quants[4 + i];
      for (uint32_t half = 0; half < 2; ++half) {
        U32 bits = rotate_left(third, 2 + half - (lane.piece & 6u));  // the run's own in bit 2, or 4
        runs[half].q.push_back(half ? (two & 0x0c0c0c0cu) | (bits & 0x10101010u)
                                    : (two & 0x03030303u) | (bits & 0x04040404u));
      }
    }
    return runs;
  }

 private:
  static std::array<Run, 2> scales(const Raw& raw, const Lane& lane) {
    F32 d = low_f16(raw.head[0]);
    std::array<Run, 2> runs;
    for (uint32_t half = 0; half < 2; ++half) {
      U32 low = raw.head[1 + half] >> (lane.piece & 4u) & 15u;
      U32 high = raw.head[3 + half] >> (lane.piece & 6u) & 3u;  // 2 bits for each four scales
      F32 scale = bitcast<float>(low | high << 4u | 0x4b000000u) - (0x1p23f + 32);
      runs[half] = {.q = {}, .scale = d * scale, .min = {}, .has_min = false};
    }
    return runs;
  }
};

// One scale for all values.
class Tq2_0 : public TwoBits {
 public:
  Tq2_0() : TwoBits(Format::tq2_0, {.apart = 32, .fields = {64, 2}}) {}

  std::vector<U32> load_head(const BlockBytes& block, const Lane&) const override { return {block.half(64)}; }
  std::vector<U32> load_quants(const BlockBytes& block, const Lane& lane) const override {
    return pairs(block, lane, 0);
  }
  std::array<Run, 2> decode(const Raw& raw, const Lane& lane) const override {
    Run run{.q = {}, .scale = low_f16(raw.head[0]), .min = {}, .has_min = false};
    std::array<Run, 2> runs{run, run};
    for (uint32_t half = 0; half < 2; ++half)
      for (U32 w : raw.quants) runs[half].q.push_back(less_bias(pair(w, lane, half), 1));
    return runs;
  }
  // 0 to 3, and the scale as the min; in the second run 4 times too large.
  std::array<Run, 2> decode_unsigned(const Raw& raw, const Lane& lane) const override {
    F32 d = low_f16(raw.head[0]);
    std::array<Run, 2> runs;
    runs[0] = {.q = {}, .scale = d, .min = d, .has_min = true};
    runs[1] = {.q = {}, .scale = d * 0.25f, .min = d, .has_min = true};
    put_pairs(runs, raw, lane);
    return runs;
  }
};

}  // namespace

const BlockFormat* super_block_of_two_bits(Format format) {
  static const Q2K q2_k;
  static const Q3K q3_k;
  static const Tq2_0 tq2_0;
  switch (format) {
    case Format::q2_k:
      return &q2_k;
    case Format::q3_k:
      return &q3_k;
    case Format::tq2_0:
      return &tq2_0;
    default:
      return nullptr;
  }
}

}  // namespace heddle::kernels

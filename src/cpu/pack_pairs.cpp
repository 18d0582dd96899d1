// cpu/kernels/pairs.h says how these blocks are read.
#include "cpu/pack_pairs.h"

#include <cstring>

#include "base/error.h"
#include "quant/codecs.h"

namespace heddle::cpu {
namespace {

using quant::Format;

// The twelve bytes of q4_k and q5_k: eight scales, then eight mins, of six bits.
void split_six_bits(const uint8_t* packed, uint8_t* to) {
  for (int field = 0; field < 2; ++field)
    for (int j = 0; j < 4; ++j) {
      const uint8_t low = packed[4 * field + j], rest = packed[8 + j];
      to[8 * field + j] = low & 63;
      to[8 * field + 4 + j] = uint8_t((rest >> 4 * field & 15) | low >> 6 << 4);
    }
}
void join_six_bits(const uint8_t* from, uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    packed[8 + j] = 0;
    for (int field = 0; field < 2; ++field) {
      const uint8_t first = from[8 * field + j], second = from[8 * field + 4 + j];
      packed[4 * field + j] = uint8_t(first | second >> 4 << 6);
      packed[8 + j] = uint8_t(packed[8 + j] | (second & 15) << 4 * field);
    }
  }
}

// Nibbles of 64 values each, as q4_k and q5_k have them: the byte with value i, and where it is there.
uint32_t nibble_byte(uint32_t i) { return i / 64 * 32 + i % 32; }
uint32_t nibble_place(uint32_t i) { return i % 64 / 32 * 4; }

// Eight values of five bits in five bytes that lie `step` apart.
void join_fives(const uint8_t* v, uint8_t* to, uint32_t step) {
  to[0] = uint8_t(v[0] | v[5] >> 2 << 5);
  to[step] = uint8_t(v[1] | (v[7] >> 1 & 1) << 5 | (v[5] & 3) << 6);
  to[2 * step] = uint8_t(v[2] | v[6] >> 2 << 5);
  to[3 * step] = uint8_t(v[3] | (v[7] & 1) << 5 | (v[6] & 3) << 6);
  to[4 * step] = uint8_t(v[4] | v[7] >> 2 << 5);
}
void split_fives(const uint8_t* from, uint32_t step, uint8_t* v) {
  for (uint32_t i = 0; i < 5; ++i) v[i] = from[i * step] & 31;
  v[5] = uint8_t(from[0] >> 5 << 2 | from[step] >> 6);
  v[6] = uint8_t(from[2 * step] >> 5 << 2 | from[3 * step] >> 6);
  v[7] = uint8_t(from[4 * step] >> 5 << 2 | (from[step] >> 5 & 1) << 1 | (from[3 * step] >> 5 & 1));
}

// Value i of q6_k: where its nibble and its two high bits are.
struct SixBits {
  uint32_t low, low_shift, high, high_shift;
  explicit SixBits(uint32_t i)
      : low(i / 128 * 64 + i % 64),
        low_shift(i % 128 / 64 * 4),
        high(128 + i / 128 * 32 + i % 32),
        high_shift(i % 128 / 32 * 2) {}
};

void to_q5_k(const uint8_t* block, uint8_t* to) {
  for (uint32_t set = 0; set < 4; ++set)
    for (uint32_t lane = 0; lane < 8; ++lane) {
      uint8_t values[8];
      for (uint32_t v = 0; v < 8; ++v) {
        const uint32_t i = 64 * set + 8 * v + lane;
        const int high = block[16 + i % 32] >> i / 32 & 1;
        values[v] = uint8_t((block[48 + nibble_byte(i)] >> nibble_place(i) & 15) | high << 4);
      }
      join_fives(values, to + 40 * set + lane, 8);
    }
}
void from_q5_k(const uint8_t* from, uint8_t* block) {
  std::memset(block + 16, 0, 160);
  for (uint32_t set = 0; set < 4; ++set)
    for (uint32_t lane = 0; lane < 8; ++lane) {
      uint8_t values[8];
      split_fives(from + 40 * set + lane, 8, values);
      for (uint32_t v = 0; v < 8; ++v) {
        const uint32_t i = 64 * set + 8 * v + lane;
        uint8_t &high = block[16 + i % 32], &low = block[48 + nibble_byte(i)];
        high = uint8_t(high | values[v] >> 4 << i / 32);
        low = uint8_t(low | (values[v] & 15) << nibble_place(i));
      }
    }
}

// Values of six bits become signed; the last of four is spread over the others.
void to_q6_k(const uint8_t* block, uint8_t* to) {
  for (uint32_t set = 0; set < 8; ++set)
    for (uint32_t lane = 0; lane < 8; ++lane) {
      uint32_t values[4];
      for (uint32_t v = 0; v < 4; ++v) {
        const SixBits at(32 * set + 8 * v + lane);
        values[v] = ((block[at.low] >> at.low_shift & 15) | (block[at.high] >> at.high_shift & 3) << 4) ^ 32;
      }
      for (uint32_t v = 0; v < 3; ++v)
        to[24 * set + 8 * v + lane] = uint8_t(values[v] | (values[3] >> (4 - 2 * v) & 3) << 6);
    }
}
void from_q6_k(const uint8_t* from, uint8_t* block) {
  std::memset(block, 0, 192);
  for (uint32_t set = 0; set < 8; ++set)
    for (uint32_t lane = 0; lane < 8; ++lane) {
      const uint8_t* bytes = from + 24 * set + lane;
      for (uint32_t v = 0; v < 4; ++v) {
        const uint32_t last = bytes[0] >> 6 << 4 | bytes[8] >> 6 << 2 | bytes[16] >> 6;
        const uint32_t value = (v < 3 ? bytes[8 * v] & 63u : last) ^ 32;
        const SixBits at(32 * set + 8 * v + lane);
        block[at.low] = uint8_t(block[at.low] | (value & 15) << at.low_shift);
        block[at.high] = uint8_t(block[at.high] | value >> 4 << at.high_shift);
      }
    }
}

void scales_to_bytes_of_iq4_xs(const uint8_t* block, uint8_t* to) {
  const uint32_t high = quant::u16_at(block + 2);
  for (uint32_t j = 0; j < 8; ++j)
    to[j] = uint8_t(((block[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4) - 32);
}
void scales_from_bytes_of_iq4_xs(const uint8_t* from, uint8_t* block) {
  std::memset(block + 2, 0, 6);
  for (uint32_t j = 0; j < 8; ++j) {
    const uint32_t scale = uint8_t(from[j] + 32);
    uint8_t &low = block[4 + j / 2], &high = block[2 + j / 4];
    low = uint8_t(low | (scale & 15) << 4 * (j % 2));
    high = uint8_t(high | scale >> 4 << 2 * (j % 4));
  }
}

}  // namespace

uint32_t pair_block_bytes(Format format) {
  switch (format) {
    case Format::q4_k:
      return 148;
    case Format::q5_k:
      return 180;
    case Format::iq4_xs:
      return 138;
    case Format::bf16:  // 32 values
      return 64;
    default:
      return quant::block_bytes(format);
  }
}

void to_pair_block(Format format, const uint8_t* block, uint8_t* to) {
  switch (format) {
    case Format::q4_k:
      std::memcpy(to, block, 4);
      split_six_bits(block + 4, to + 4);
      std::memcpy(to + 20, block + 16, 128);
      break;
    case Format::q5_k:
      std::memcpy(to, block, 4);
      split_six_bits(block + 4, to + 4);
      to_q5_k(block, to + 20);
      break;
    case Format::q6_k:
      std::memcpy(to, block + 208, 2);
      std::memcpy(to + 2, block + 192, 16);
      to_q6_k(block, to + 18);
      break;
    case Format::iq4_xs:
      std::memcpy(to, block, 2);
      scales_to_bytes_of_iq4_xs(block, to + 2);
      std::memcpy(to + 10, block + 8, 128);
      break;
    case Format::q4_0:  // nibbles become signed
      std::memcpy(to, block, 2);
      for (int i = 2; i < 18; ++i) to[i] = block[i] ^ 0x88;
      break;
    case Format::q8_0:
    case Format::iq4_nl:
    case Format::mxfp4:
    case Format::bf16:
      std::memcpy(to, block, pair_block_bytes(format));
      break;
    default:
      check(false, "a format that is packed in pairs");
  }
}

void from_pair_block(Format format, const uint8_t* from, uint8_t* block) {
  switch (format) {
    case Format::q4_k:
      std::memcpy(block, from, 4);
      join_six_bits(from + 4, block + 4);
      std::memcpy(block + 16, from + 20, 128);
      break;
    case Format::q5_k:
      std::memcpy(block, from, 4);
      join_six_bits(from + 4, block + 4);
      from_q5_k(from + 20, block);
      break;
    case Format::q6_k:
      std::memcpy(block + 208, from, 2);
      std::memcpy(block + 192, from + 2, 16);
      from_q6_k(from + 18, block);
      break;
    case Format::iq4_xs:
      std::memcpy(block, from, 2);
      scales_from_bytes_of_iq4_xs(from + 2, block);
      std::memcpy(block + 8, from + 10, 128);
      break;
    default:  // those that to_pair_block undoes itself
      to_pair_block(format, from, block);
  }
}

}  // namespace heddle::cpu

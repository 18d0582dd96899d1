// cpu/kernels/pairs.h says how these blocks are read.
#include "cpu/pack_pairs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "quant/codecs.h"

namespace heddle::cpu {
namespace {

using quant::Format;

constexpr uint32_t rows_of_pairs = 8;  // of a tile
constexpr uint32_t max_pair_block_bytes = 210;

constexpr uint32_t bytes_of_pairs(Format format) {
  switch (format) {
    case Format::q4_k:
      return 148;
    case Format::q5_k:
      return 180;
    case Format::iq4_xs:
      return 138;
    case Format::bf16:  // 32 values
      return 64;
    case Format::q6_k:
      return 210;
    case Format::q8_0:
      return 34;
    case Format::mxfp4:
      return 17;
    default:  // q4_0, iq4_nl
      return 18;
  }
}

// A block begins with what eight bytes do not divide: scales, of which each row has `part` bytes at a time.
constexpr uint32_t header_part(Format format) { return format == Format::mxfp4 ? 1 : 2; }

// Eight bytes at a time, as lanes of a word.
using Lanes = uint64_t;
constexpr Lanes all_lanes(uint32_t byte) { return byte * Lanes(0x0101010101010101); }
Lanes lanes_at(const uint8_t* at) {
  Lanes lanes;
  std::memcpy(&lanes, at, 8);
  return lanes;
}
void put_lanes(uint8_t* to, Lanes lanes) { std::memcpy(to, &lanes, 8); }

// Where the units of eight bytes of a row go: in a block of its own they follow each other, in a tile other rows come
// between them.
struct Units {
  uint8_t* to;
  uint32_t stride;
  void put(uint32_t index, Lanes lanes) const { put_lanes(to + index * stride, lanes); }
  Units from(uint32_t index) const { return {to + index * stride, stride}; }
};
inline void copy_units(const uint8_t* from, uint32_t count, Units to) {
  for (uint32_t i = 0; i < count; ++i) to.put(i, lanes_at(from + 8 * i));
}
using FourLanes [[gnu::vector_size(32)]] = Lanes;
// Of each lane `count` bits from bit `from` on.
constexpr Lanes bits(Lanes lanes, uint32_t from, uint32_t count) {
  return lanes >> from & all_lanes((1u << count) - 1);
}

// The twelve bytes of q4_k and q5_k: eight scales, then eight mins, of six bits.
inline void split_six_bits(const uint8_t* packed, Units to) {
  const Lanes first = lanes_at(packed), rest = quant::u32_at(packed + 8);  // first: four scales, four mins
  const Lanes low = bits(first, 0, 6), high = bits(first, 6, 2) << 4;      // high: of the four others
  to.put(0, (low & UINT32_MAX) | (high | bits(rest, 0, 4)) << 32);
  to.put(1, low >> 32 | (high >> 32 | bits(rest, 4, 4)) << 32);
}
void join_six_bits(const uint8_t* from, uint8_t* packed) {
  const Lanes scales = lanes_at(from), mins = lanes_at(from + 8);
  const Lanes low = (scales & UINT32_MAX) | mins << 32, high = scales >> 32 | mins >> 32 << 32;
  put_lanes(packed, low | bits(high, 4, 2) << 6);
  const Lanes rest = bits(scales, 0, 4) | bits(mins, 0, 4) << 4;
  std::memcpy(packed + 8, reinterpret_cast<const uint8_t*>(&rest) + 4, 4);
}

// Eight values of five bits in five bytes.
inline void join_fives(const Lanes* v, Units to) {
  to.put(0, v[0] | bits(v[5], 2, 3) << 5);
  to.put(1, v[1] | bits(v[7], 1, 1) << 5 | bits(v[5], 0, 2) << 6);
  to.put(2, v[2] | bits(v[6], 2, 3) << 5);
  to.put(3, v[3] | bits(v[7], 0, 1) << 5 | bits(v[6], 0, 2) << 6);
  to.put(4, v[4] | bits(v[7], 2, 3) << 5);
}
void split_fives(const uint8_t* from, Lanes* v) {
  Lanes bytes[5];
  for (uint32_t i = 0; i < 5; ++i) bytes[i] = lanes_at(from + 8 * i);
  for (uint32_t i = 0; i < 5; ++i) v[i] = bits(bytes[i], 0, 5);
  v[5] = bits(bytes[0], 5, 3) << 2 | bits(bytes[1], 6, 2);
  v[6] = bits(bytes[2], 5, 3) << 2 | bits(bytes[3], 6, 2);
  v[7] = bits(bytes[4], 5, 3) << 2 | bits(bytes[1], 5, 1) << 1 | bits(bytes[3], 5, 1);
}

// Of each 64 values q5_k has 32 in low nibbles, then 32 in high ones; their fifth bits are those of 32 bytes in turn.
inline void to_q5_k(const uint8_t* block, Units to) {
  const uint8_t *high = block + 16, *low = block + 48;
  for (uint32_t set = 0; set < 4; ++set, low += 32) {
    Lanes values[8];
    for (uint32_t half = 0; half < 2; ++half)
      for (uint32_t i = 0; i < 4; ++i)
        values[4 * half + i] =
            bits(lanes_at(low + 8 * i), 4 * half, 4) | bits(lanes_at(high + 8 * i), 2 * set + half, 1) << 4;
    join_fives(values, to.from(5 * set));
  }
}
void from_q5_k(const uint8_t* from, uint8_t* block) {
  uint8_t *high = block + 16, *low = block + 48;
  std::memset(high, 0, 32);
  for (uint32_t set = 0; set < 4; ++set, low += 32, from += 40) {
    Lanes values[8];
    split_fives(from, values);
    for (uint32_t i = 0; i < 4; ++i) {
      const Lanes both[] = {values[i], values[4 + i]};
      put_lanes(low + 8 * i, bits(both[0], 0, 4) | bits(both[1], 0, 4) << 4);
      put_lanes(high + 8 * i, lanes_at(high + 8 * i) | (bits(both[0], 4, 1) | bits(both[1], 4, 1) << 1) << 2 * set);
    }
  }
}

// Of each 128 values q6_k has 64 in low nibbles, then 64 in high ones, and their upper two bits in 32 bytes in turn.
// Here 32 values are in 24 bytes: they become signed, and the last 8 are spread over the lowest bits of the others.
inline void to_q6_k(const uint8_t* block, Units to) {
  for (uint32_t set = 0; set < 8; ++set) {
    const uint8_t *low = block + set / 4 * 64 + set % 2 * 32, *high = block + 128 + set / 4 * 32;
    const uint32_t nibble = set % 4 / 2 * 4, two = set % 4 * 2;
    FourLanes nibbles, twos;
    std::memcpy(&nibbles, low, 32);
    std::memcpy(&twos, high, 32);
    const FourLanes values = ((nibbles >> nibble & all_lanes(15)) | (twos >> two & all_lanes(3)) << 4) ^ all_lanes(32);
    const FourLanes last = FourLanes{values[3] >> 4, values[3] >> 2, values[3], 0} & all_lanes(3);
    const FourLanes result = values << 2 | last;
    for (uint32_t i = 0; i < 3; ++i) to.put(3 * set + i, result[i]);
  }
}
void from_q6_k(const uint8_t* from, uint8_t* block) {
  std::memset(block, 0, 192);
  for (uint32_t set = 0; set < 8; ++set, from += 24) {
    uint8_t *low = block + set / 4 * 64 + set % 2 * 32, *high = block + 128 + set / 4 * 32;
    const uint32_t nibble = set % 4 / 2 * 4, two = set % 4 * 2;
    Lanes values[4] = {};
    for (uint32_t i = 0; i < 3; ++i) {
      values[i] = bits(lanes_at(from + 8 * i), 2, 6);
      values[3] |= bits(lanes_at(from + 8 * i), 0, 2) << (4 - 2 * i);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      const Lanes value = values[i] ^ all_lanes(32);
      put_lanes(low + 8 * i, lanes_at(low + 8 * i) | bits(value, 0, 4) << nibble);
      put_lanes(high + 8 * i, lanes_at(high + 8 * i) | bits(value, 4, 2) << two);
    }
  }
}

inline Lanes scales_of_iq4_xs(const uint8_t* block) {
  const uint32_t high = quant::u16_at(block + 2);
  uint8_t scales[8];
  for (uint32_t j = 0; j < 8; ++j)
    scales[j] = uint8_t(((block[4 + j / 2] >> 4 * (j % 2) & 15) | (high >> 2 * j & 3) << 4) - 32);
  return lanes_at(scales);
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

// Parts of the header lie `stride` apart. The switch is gone where the format is a constant.
inline void to_pair_block(Format format, const uint8_t* block, uint8_t* header, uint32_t stride, Units units) {
  switch (format) {
    case Format::q4_k:
      std::memcpy(header, block, 2);
      std::memcpy(header + stride, block + 2, 2);
      split_six_bits(block + 4, units);
      return copy_units(block + 16, 16, units.from(2));
    case Format::q5_k:
      std::memcpy(header, block, 2);
      std::memcpy(header + stride, block + 2, 2);
      split_six_bits(block + 4, units);
      return to_q5_k(block, units.from(2));
    case Format::q6_k:
      std::memcpy(header, block + 208, 2);
      copy_units(block + 192, 2, units);
      return to_q6_k(block, units.from(2));
    case Format::iq4_xs:
      std::memcpy(header, block, 2);
      units.put(0, scales_of_iq4_xs(block));
      return copy_units(block + 8, 16, units.from(1));
    case Format::q4_0:  // nibbles become signed
      std::memcpy(header, block, 2);
      for (uint32_t i = 0; i < 2; ++i) units.put(i, lanes_at(block + 2 + 8 * i) ^ all_lanes(0x88));
      return;
    case Format::q8_0:
      std::memcpy(header, block, 2);
      return copy_units(block + 2, 4, units);
    case Format::iq4_nl:
      std::memcpy(header, block, 2);
      return copy_units(block + 2, 2, units);
    case Format::mxfp4:
      header[0] = block[0];
      return copy_units(block + 1, 2, units);
    case Format::bf16:
      return copy_units(block, 8, units);
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
      const uint32_t header = bytes_of_pairs(format) % 8;
      to_pair_block(format, from, block, header_part(format), {block + header, 8});
  }
}

// A tile of one format.
template <Format format>
void pack_tile(const uint8_t* rows, uint64_t row_bytes, uint32_t count, uint64_t blocks, uint8_t* to) {
  constexpr uint32_t bytes = bytes_of_pairs(format), header = bytes % 8, part = header_part(format);
  const uint64_t block_bytes = row_bytes / blocks;
  if (count < rows_of_pairs) std::memset(to, 0, blocks * bytes * rows_of_pairs);
  for (uint64_t b = 0; b < blocks; ++b, to += bytes * rows_of_pairs)
    for (uint32_t r = 0; r < count; ++r)
      to_pair_block(format, rows + r * row_bytes + b * block_bytes, to + r * part, part * rows_of_pairs,
                    {to + header * rows_of_pairs + r * 8, 8 * rows_of_pairs});
}

}  // namespace

uint32_t pair_block_bytes(Format format) { return bytes_of_pairs(format); }

void pack_pair_tile(Format format, const uint8_t* rows, uint64_t row_bytes, uint32_t count, uint64_t blocks,
                    uint8_t* to) {
  const auto pack = [&]<Format each>() { pack_tile<each>(rows, row_bytes, count, blocks, to); };
  switch (format) {
    case Format::q4_k:
      return pack.operator()<Format::q4_k>();
    case Format::q5_k:
      return pack.operator()<Format::q5_k>();
    case Format::q6_k:
      return pack.operator()<Format::q6_k>();
    case Format::iq4_xs:
      return pack.operator()<Format::iq4_xs>();
    case Format::q4_0:
      return pack.operator()<Format::q4_0>();
    case Format::q8_0:
      return pack.operator()<Format::q8_0>();
    case Format::iq4_nl:
      return pack.operator()<Format::iq4_nl>();
    case Format::mxfp4:
      return pack.operator()<Format::mxfp4>();
    case Format::bf16:
      return pack.operator()<Format::bf16>();
    default:
      check(false, "a format that is packed in pairs");
  }
}

void decode_pair_row(Format format, const uint8_t* tile, uint32_t r, uint64_t blocks, float* out) {
  const uint32_t bytes = bytes_of_pairs(format), header = bytes % 8, part = header_part(format);
  const uint32_t values = std::max<uint32_t>(quant::block_values(format), 32);
  uint8_t packed[max_pair_block_bytes], block[max_pair_block_bytes];
  for (uint64_t b = 0; b < blocks; ++b, tile += bytes * rows_of_pairs, out += values) {
    for (uint32_t i = 0; i < header; i += part) std::memcpy(packed + i, tile + i * rows_of_pairs + r * part, part);
    for (uint32_t i = header; i < bytes; i += 8) std::memcpy(packed + i, tile + i * rows_of_pairs + r * 8, 8);
    from_pair_block(format, packed, block);
    quant::decode(format, block, values, out);
  }
}

}  // namespace heddle::cpu

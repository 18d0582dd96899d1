// The tiles of formats with quants that index a codebook: see quant/decode_grids.cpp. A lookup costs more than the
// product with one row, so two rows already take a slab.
#pragma once
#include "cpu/grids.h"
#include "cpu/kernels/formats.h"

namespace heddle::cpu {
namespace {

template <class V_>
struct Grid : Fields<V_>, Super {
  using V = V_;
  using B = typename V::B;
  using I = typename V::I;
  static constexpr int max_few = 1;
  static constexpr bool wide = true;

  // Byte `index` of word `word` of a field of one row.
  static HEDDLE_INLINE uint32_t byte(const uint8_t* at, int field, int word, int index, int row) {
    return (at + (field + 4 * word) * Grid::rows + index)[row * 4];
  }
  static HEDDLE_INLINE uint32_t pair_of_row(const uint8_t* at, int field, int index, int row) {
    return load<uint16_t>(at + (field + 2 * index) * Grid::rows + row * 2);
  }
  // A number of 8 low bits and some high ones, which are `mask << from` of a word.
  template <int from, uint32_t mask>
  static HEDDLE_INLINE uint32_t with_high(uint32_t low, uint32_t word) {
    if constexpr (from <= 8)
      return low | (word & mask << from) << (8 - from);
    else
      return low | (word & mask << from) >> (from - 8);
  }
  // Step `step` of 32 values of eights, by index(row).
  template <int step, class Index>
  static HEDDLE_INLINE B eights(const uint64_t* grid, int p, Index index) {
    return Words<V>::template eights<step % 2>([&](int lane)
                                                   HEDDLE_INLINE_LAMBDA { return grid[index(p * lanes<V> + lane)]; });
  }
  template <class Index>
  static HEDDLE_INLINE B fours(const int32_t* grid, int p, Index index) {
    return Words<V>::fours([&](int lane) HEDDLE_INLINE_LAMBDA { return grid[index(p * lanes<V> + lane)]; });
  }
  // Negated where the bit of the value is set; bits as those of q5_0.
  template <int field, int step>
  static HEDDLE_INLINE B with_signs(const uint8_t* at, int r, int p, B values) {
    const B mask = (B)((Grid::word(at, field, r, p) & uint8_t(1 << step)) != uint8_t(0));
    return V::wide((values ^ mask) - mask);
  }
  // Quad q of the scales that the nibbles of a field are: 2 * nibble + 1.
  template <int field, int q>
  static HEDDLE_INLINE B odd_scales(const uint8_t* at, int p) {
    const I nibbles = (I)Grid::word(at, field, q / 2, p) >> (q % 2 * 16);
    // 4 nibbles of the low half to 4 bytes
    const I apart = (nibbles & 0xff) | (nibbles & 0xff00) << 8;
    return (B)(((apart & 0x000f000f) | (apart & 0x00f000f0) << 4) << 1 | 0x01010101);
  }
};

template <class V>
struct Iq2_xxs : Grid<V> {
  static constexpr int bytes = 70;  // pack.cpp writes the signs out: f16 d | nibbles of 8 scales | signs | entries
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    const auto entries = Iq2_xxs::template eights<step>(
        iq2_xxs_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA { return Iq2_xxs::byte(at, 38, r, step / 2, row); });
    return Iq2_xxs::template with_signs<6, step>(at, r, p, entries);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Iq2_xxs::template odd_scales<2, q>(at, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Iq2_xxs::half(at, 0, p) * 0.125f; }
};

// A scale for each 16 values.
template <class V>
struct Grid16 : Grid<V> {
  static constexpr int group = 16, groups = 16;
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Grid16::template odd_scales<2, q>(at, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Grid16::half(at, 0, p) * 0.125f; }
};

template <class V>
struct Iq2_xs : Grid16<V> {
  static constexpr int bytes = 78;  // as pack.cpp writes it: f16 d | scales | 32 high bits | signs | entries
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    constexpr int s = 4 * g + step;
    const auto entries = Iq2_xs::template eights<s>(iq2_xs_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA {
      const uint32_t high = Iq2_xs::byte(at, 10, 0, r / 2, row) >> r % 2 * 4;
      return Iq2_xs::template with_high<s / 2, 1>(Iq2_xs::byte(at, 46, r, s / 2, row), high);
    });
    return Iq2_xs::template with_signs<14, s>(at, r, p, entries);
  }
};

template <class V>
struct Iq2_s : Grid16<V> {
  static constexpr int bytes = 82;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    constexpr int s = 4 * g + step;
    const auto entries = Iq2_s::template eights<s>(iq2_s_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA {
      const uint32_t high = Iq2_s::byte(at, 10, r / 4, r % 4, row);
      return Iq2_s::template with_high<s / 2 * 2, 3>(Iq2_s::byte(at, 50, r, s / 2, row), high);
    });
    return Iq2_s::template with_signs<18, s>(at, r, p, entries);
  }
};

template <class V>
struct Iq3_xxs : Grid<V> {
  static constexpr int bytes = 102;  // as pack.cpp writes it: f16 d | scales | signs | entries
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    const auto entries = Iq3_xxs::fours(iq3_xxs_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA {
      return Iq3_xxs::byte(at, 38, 2 * r + step / 4, step % 4, row);
    });
    return Iq3_xxs::template with_signs<6, step>(at, r, p, entries);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Iq3_xxs::template odd_scales<2, q>(at, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Iq3_xxs::half(at, 0, p) * 0.25f; }
};

template <class V>
struct Iq3_s : Grid<V> {
  static constexpr int bytes = 110;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    const auto entries = Iq3_s::fours(iq3_s_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA {
      const uint32_t high = Iq3_s::byte(at, 6, r / 4, r % 4, row);
      return Iq3_s::template with_high<step, 1>(Iq3_s::byte(at, 46, 2 * r + step / 4, step % 4, row), high);
    });
    return Iq3_s::template with_signs<14, step>(at, r, p, entries);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Iq3_s::template odd_scales<2, q>(at, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Iq3_s::half(at, 0, p); }
};

// All weights are 8 times entry + shift: the entries are, and the shift is one.
template <class V>
struct Shifted : Grid<V> {
  using B = typename V::B;
  using I = typename V::I;
  // `negative`: its sign bit says whether the shift is -1.
  static HEDDLE_INLINE B shifted(B values, I negative) { return V::wide(values + ((B)(negative >> 31) | uint8_t(1))); }
  // 2 * scale + 1 for four scales of 3 bits, the lowest of each word.
  template <class Word>
  static HEDDLE_INLINE B four_scales(Word word) {
    I four = I{};
    each<4>([&](auto j) HEDDLE_INLINE_LAMBDA {
      constexpr int i = HEDDLE_VALUE(j);
      four |= (word(j) & 7) << (8 * i + 1);
    });
    return (B)four | uint8_t(1);
  }
};

template <class V>
struct Iq1_s : Shifted<V> {
  static constexpr int bytes = 50;  // f16 d | 8 uint16_t | entries
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    const auto entries = Iq1_s::template eights<step>(iq1_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA {
      const uint32_t high = Iq1_s::pair_of_row(at, 2, r, row);
      return Iq1_s::template with_high<step / 2 * 3, 7>(Iq1_s::byte(at, 18, r, step / 2, row), high);
    });
    return Iq1_s::shifted(entries, Iq1_s::pair(at, 2, r, p) << 16);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Iq1_s::four_scales(
        [&](auto j) HEDDLE_INLINE_LAMBDA { return Iq1_s::pair(at, 2, 4 * q + HEDDLE_VALUE(j), p) >> 12; });
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Iq1_s::half(at, 0, p) * 0.125f; }
};

template <class V>
struct Iq1_m : Shifted<V> {
  static constexpr int bytes = 56, group = 16, groups = 16;  // 8 uint16_t of high bits | 4 of scales and d | entries
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    constexpr int eight = 2 * g + step / 2;
    const auto entries = Iq1_m::template eights<step>(iq1_book.at, p, [&](int row) HEDDLE_INLINE_LAMBDA {
      const uint32_t high = Iq1_m::pair_of_row(at, 0, r, row);
      return Iq1_m::template with_high<eight * 4, 7>(Iq1_m::byte(at, 24, r, eight, row), high);
    });
    return Iq1_m::shifted(entries, Iq1_m::pair(at, 0, r, p) << (28 - 4 * eight));
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    const auto word = Iq1_m::pair(at, 16, q, p);
    return Iq1_m::four_scales([&](auto j) HEDDLE_INLINE_LAMBDA { return word >> 3 * HEDDLE_VALUE(j); });
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) {
    uint16_t bits[lanes<V>] = {};
    for (int i = 0; i < lanes<V>; ++i)
      for (int j = 0; j < 4; ++j)
        bits[i] = uint16_t(bits[i] | Iq1_m::pair_of_row(at, 16, j, p * lanes<V> + i) >> 12 << 4 * j);
    return V::half(bits) * 0.125f;
  }
};

}  // namespace
}  // namespace heddle::cpu

// The tiles of each integer format: where the fields of a block lie, and how its weights become bytes in a vector.
//
// A tile is `rows` rows of weights, block by block. A block of a tile has the fields of the file's block in the order
// that cpu/pack.cpp says, each interleaved in units: f16 after f16, word of 4 bytes after word of 4 bytes, for all
// rows. So word k of a field is one step: the same 4 values of every row, V::vectors vectors wide.
#pragma once
#include "cpu/isa.h"
#include "cpu/kernels/vector.h"
#include "quant/tables.h"

namespace heddle::cpu {
namespace {

// weights<g, step>(at, r, p) is step `step` of group r * groups / repeat + g: the loop over r runs, the one over g
// is unrolled, because shifts must be constants. Where `together` blocks of `values` values are one block of the tile,
// r counts them.

// What formats have in common. `field` is the offset of a field in bytes per row.
template <class V_>
struct Fields {
  using V = V_;
  using B = typename V::B;
  using I = typename V::I;
  using F = typename V::F;
  static constexpr int rows = tile_rows<V>;
  static HEDDLE_INLINE B word(const uint8_t* at, int field, int step, int p) {
    return load<B>(at + (field + 4 * step) * rows + p * V::width);
  }
  static HEDDLE_INLINE F half(const uint8_t* at, int field, int p) {
    return V::half(at + field * rows + p * lanes<V> * 2);
  }
  // Number `index` of the uint16_t of a field.
  static HEDDLE_INLINE I pair(const uint8_t* at, int field, int index, int p) {
    return Words<V>::pairs(at + (field + 2 * index) * rows + p * lanes<V> * 2);
  }
};

// The bits `mask << from` of each byte, moved to begin at `to`.
template <int from, int to, int mask, class B>
HEDDLE_INLINE B moved(B v) {
  if constexpr (from < to) return (v << (to - from)) & uint8_t(mask << to);
  if constexpr (to == 0 && (mask << from) >= 256 - (1 << from)) return v >> from;
  if constexpr (from > to) return (v >> (from - to)) & uint8_t(mask << to);
  return v & uint8_t(mask << to);
}

// Blocks of 32 with nibbles: values 0-15 are the low ones of 16 bytes, 16-31 the high ones.
template <class V, int field, int step>
HEDDLE_INLINE typename V::B nibble_of_32(const uint8_t* at, int p) {
  return moved<step / 4 * 4, 0, 15>(Fields<V>::word(at, field, step % 4, p));
}

// max_few: rows up to which tiles are read as they are packed; more read a slab. max_pass: rows that meet the weights
// at once, if there are registers for as many. Beyond it, unpacking the weights again costs less than loads and stores
// of sums, so it is low where nothing is unpacked; it is even, and small for formats that few models have. max_weight:
// the largest byte of a format that is not `wide`.
struct Passes {
  static constexpr int max_few = 8, max_pass = 8;
};
// 0 where V or the format makes no use of it.
template <class Format>
constexpr int max_weight_of = [] {
  if constexpr (has_shorts<typename Format::V> && !Format::wide)
    return Format::max_weight;
  else
    return 0;
}();
struct One : Passes {  // blocks of 32 values with one scale
  static constexpr int values = 32, group = 32, groups = 1, repeat = 1, offset = 0, together = 1;
  static constexpr bool wide = false;
  static constexpr Mins mins = Mins::none;
};
struct Super : Passes {  // blocks of 256 values
  static constexpr int values = 256, group = 32, groups = 8, repeat = 8, offset = 0, together = 1;
  static constexpr bool wide = false;
  static constexpr Mins mins = Mins::none;
};

template <class V>
struct Q4_0 : Fields<V>, One {
  static constexpr int bytes = 18, offset = 8, max_weight = 15, max_few = 32, max_pass = 12;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return nibble_of_32<V, 2, step>(at, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q4_0::half(at, 0, p); }
};

template <class V>
struct Q4_1 : Fields<V>, One {
  static constexpr int bytes = 20, max_weight = 15;
  static constexpr Mins mins = Mins::plain;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return nibble_of_32<V, 4, step>(at, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q4_1::half(at, 0, p); }
  static HEDDLE_INLINE typename V::F m(const uint8_t* at, int p) { return Q4_1::half(at, 2, p); }
};

// Bit `step` of byte b is the high bit of value 4 * step + b: pack.cpp puts them so.
template <class V>
struct Q5_0 : Fields<V>, One {
  static constexpr int bytes = 22, offset = 16, max_weight = 31;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return nibble_of_32<V, 6, step>(at, p) | moved<step, 4, 1>(Q5_0::word(at, 2, 0, p));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q5_0::half(at, 0, p); }
};

template <class V>
struct Q5_1 : Fields<V>, One {
  static constexpr int bytes = 24, max_weight = 31;
  static constexpr Mins mins = Mins::plain;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return nibble_of_32<V, 8, step>(at, p) | moved<step, 4, 1>(Q5_1::word(at, 4, 0, p));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q5_1::half(at, 0, p); }
  static HEDDLE_INLINE typename V::F m(const uint8_t* at, int p) { return Q5_1::half(at, 2, p); }
};

template <class V>
struct Q8_0 : Fields<V>, One {
  static constexpr int bytes = 34, max_few = 32;
  static constexpr bool wide = true;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return V::wide(Q8_0::word(at, 2, step, p));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q8_0::half(at, 0, p); }
};

template <class V>
struct Iq4_nl : Fields<V>, One {
  static constexpr int bytes = 18;
  static constexpr bool wide = true;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return V::wide(V::table(nibble_of_32<V, 2, step>(at, p), quant::iq4_table));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Iq4_nl::half(at, 0, p); }
};

// Weights from -12 to 12; 12 is added to them where V wants unsigned bytes for int16 sums.
template <class V>
struct E2m1 : Fields<V>, One {
  static constexpr bool wide = !has_shorts<V>;
  static constexpr int offset = wide ? 0 : 12, max_weight = 24;
  static HEDDLE_INLINE typename V::B entries(typename V::B nibbles) {
    const auto found = V::table(nibbles, quant::mxfp4_table);
    if constexpr (wide)
      return V::wide(found);
    else
      return found + uint8_t(offset);
  }
};

template <class V>
struct Mxfp4 : E2m1<V> {
  static constexpr int bytes = 17, max_few = 14, max_pass = 12;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return Mxfp4::entries(nibble_of_32<V, 1, step>(at, p));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) {
    const auto e = Words<V>::bytes(at + p * lanes<V>);  // below 2 it is subnormal
    return (typename V::F)(e < 2 ? (e + 1) << 21 : (e - 1) << 23);
  }
};

// pack.cpp splits the block of the file into four of 16 values.
template <class V>
struct Nvfp4 : E2m1<V> {
  static constexpr int values = 16, group = 16, bytes = 9;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    return Nvfp4::entries(moved<step / 2 * 4, 0, 15>(Nvfp4::word(at, 1, step % 2, p)));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) {
    // half of an e4m3: below 8 it is subnormal, and 0x7f is 0
    const typename V::I byte = Words<V>::bytes(at + p * lanes<V>), e4m3 = byte & 0x7f & (byte != 0x7f);
    return choose<V>(e4m3 < 8, floats<V>(e4m3) * 0x1p-10f, (typename V::F)((e4m3 << 20) + (119 << 23)));
  }
};

// Signs, as the high bits of q5_0: 0 or 2, less one.
template <class V>
struct Q1_0 : Fields<V>, One {
  static constexpr int bytes = 18, together = 4, offset = 1, max_weight = 2, max_few = 1;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    return moved<step, 1, 1>(Q1_0::word(at, 2, r, p));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q1_0::half(at, 0, p); }
};

// Bits 2 * (step % 4) and up of byte b are value 4 * step + b: pack.cpp puts them so.
template <class V>
struct Q2_0 : Fields<V>, One {
  static constexpr int bytes = 18, together = 2, offset = 1, max_weight = 3, max_few = 1;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    return moved<step % 4 * 2, 0, 3>(Q2_0::word(at, 2, 2 * r + step / 4, p));
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q2_0::half(at, 0, p); }
};

// Eight 6-bit scales and mins in three words: see quant/decode_super_blocks.cpp.
template <class V, int field>
struct SixBitPairs : Fields<V> {
  using B = typename V::B;
  template <int q>
  static HEDDLE_INLINE B scales(const uint8_t* at, int p) {
    const B first = SixBitPairs::word(at, field, 0, p);
    if constexpr (q == 0) return first & uint8_t(63);
    return (SixBitPairs::word(at, field, 2, p) & uint8_t(15)) | (first >> 6) << 4;
  }
  template <int q>
  static HEDDLE_INLINE B min_bytes(const uint8_t* at, int p) {
    const B second = SixBitPairs::word(at, field, 1, p);
    if constexpr (q == 0) return second & uint8_t(63);
    return (SixBitPairs::word(at, field, 2, p) >> 4) | (second >> 6) << 4;
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return SixBitPairs::half(at, 0, p); }
  static HEDDLE_INLINE typename V::F m(const uint8_t* at, int p) { return SixBitPairs::half(at, 2, p); }
};

template <class V>
struct Q4_k : SixBitPairs<V, 4>, Super {
  static constexpr int bytes = 144, repeat = 4, max_weight = 15, max_few = 32, max_pass = 12;
  static constexpr Mins mins = Mins::scaled;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    return moved<4 * g, 0, 15>(Q4_k::word(at, 16, r * 8 + step, p));
  }
};

template <class V>
struct Q5_k : SixBitPairs<V, 4>, Super {
  static constexpr int bytes = 176, repeat = 4, max_weight = 31, max_few = 14, max_pass = 12;
  static constexpr Mins mins = Mins::scaled;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    // bit 2 r + g of each byte: bits shifted in from the next byte are masked away
    const auto high = (typename V::B)((typename V::I)Q5_k::word(at, 16, step, p) >> 2 * r);
    return moved<4 * g, 0, 15>(Q5_k::word(at, 48, r * 8 + step, p)) | moved<g, 4, 1>(high);
  }
};

template <class V>
struct Q6_k : Fields<V>, Super {
  static constexpr int bytes = 210, group = 16, groups = 16, repeat = 2, offset = 32;
  static constexpr int max_weight = 63, max_few = 14, max_pass = 12;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    // two bits at 2 * (g / 2) go above a nibble; what lies beyond them is masked away
    const auto low = Q6_k::word(at, 18, 16 * r + 4 * (g % 4) + step, p);
    auto high = Q6_k::word(at, 146, 8 * r + 4 * (g % 2) + step, p);
    if constexpr (g / 2 % 2 == 1) high = high >> 2;
    return (g < 4 ? V::low_then(low, high) : V::high_then(low, high)) & uint8_t(63);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Q6_k::word(at, 2, q, p);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q6_k::half(at, 0, p); }
};

// 2-bit quants as q2_k and q3_k have them.
template <class V, int field, int g, int step>
HEDDLE_INLINE typename V::B two_bits(const uint8_t* at, int r, int p) {
  return moved<g / 2 * 2, 0, 3>(Fields<V>::word(at, field, r * 8 + g % 2 * 4 + step, p));
}

template <class V>
struct Q2_k : Fields<V>, Super {
  static constexpr int bytes = 84, group = 16, groups = 16, repeat = 2, max_weight = 3;
  static constexpr Mins mins = Mins::scaled;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    return two_bits<V, 20, g, step>(at, r, p);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return Q2_k::word(at, 4, q, p) & uint8_t(15);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B min_bytes(const uint8_t* at, int p) {
    return Q2_k::word(at, 4, q, p) >> 4;
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q2_k::half(at, 0, p); }
  static HEDDLE_INLINE typename V::F m(const uint8_t* at, int p) { return Q2_k::half(at, 2, p); }
};

template <class V>
struct Q3_k : Fields<V>, Super {
  static constexpr int bytes = 110, group = 16, groups = 16, repeat = 2, offset = 4, max_weight = 7;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    const auto high = (typename V::B)((typename V::I)Q3_k::word(at, 14, g % 2 * 4 + step, p) >> 4 * r);
    return two_bits<V, 46, g, step>(at, r, p) | moved<g / 2, 2, 1>(high);
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    return (moved<q / 2 * 4, 0, 15>(Q3_k::word(at, 2, q % 2, p)) | moved<2 * q, 4, 3>(Q3_k::word(at, 2, 2, p))) -
           uint8_t(32);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Q3_k::half(at, 0, p); }
};

// 256 values of -1, 0 or 1 with one scale.
template <class V>
struct Ternary : Fields<V>, Super {
  static constexpr int max_few = 1;
  static constexpr bool wide = true;
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t*, int) {
    return typename V::B{} + uint8_t(1);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Ternary::half(at, 0, p); }
};

template <class V>
struct Tq2_0 : Ternary<V> {
  static constexpr int bytes = 66, repeat = 2;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    return V::wide(moved<2 * g, 0, 3>(Tq2_0::word(at, 2, 8 * r + step, p)) - uint8_t(1));
  }
};

// Five digits a byte: see quant/decode_blocks.cpp. A byte times 3^n, without what goes beyond it, begins with digit n:
// from 86 on it is 1, from 171 on 2.
template <class V>
struct Tq1_0 : Ternary<V> {
  static constexpr int bytes = 54, repeat = 1;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int, int p) {
    constexpr int rest = 8 * (g - 5) + step;  // words after the first 160 values
    if constexpr (rest < 0)
      return digit<g>(Tq1_0::word(at, 2, step, p));
    else if constexpr (rest < 20)
      return digit<rest / 4>(Tq1_0::word(at, 34, rest % 4, p));
    else
      return digit<rest - 20>(Tq1_0::word(at, 50, 0, p));
  }

 private:
  template <int n>
  static HEDDLE_INLINE typename V::B digit(typename V::B packed) {
    using B = typename V::B;
    constexpr uint8_t powers[] = {1, 3, 9, 27, 81};
    const B fraction = packed * powers[n];
    return V::wide(~(B)(fraction > uint8_t(85)) - (B)(fraction > uint8_t(170)));
  }
};

template <class V>
struct Iq4_xs : Fields<V>, Super {
  static constexpr int bytes = 136, max_few = 32, max_pass = 12;
  static constexpr bool wide = true;
  template <int g, int step>
  static HEDDLE_INLINE typename V::B weights(const uint8_t* at, int r, int p) {
    return V::wide(V::table(moved<step / 4 * 4, 0, 15>(Iq4_xs::word(at, 8, 4 * r + step % 4, p)), quant::iq4_table));
  }
  template <int q>
  static HEDDLE_INLINE typename V::B scales(const uint8_t* at, int p) {
    using I = typename V::I;
    const I low = (I)Iq4_xs::word(at, 4, 0, p), top = Iq4_xs::pair(at, 2, 0, p);  // 2 bits for each of the eight
    I four = I{};
    each<4>([&](auto j) HEDDLE_INLINE_LAMBDA {
      constexpr int g = 4 * q + HEDDLE_VALUE(j), to = 8 * HEDDLE_VALUE(j);
      four |= (((low >> 4 * g) & 15) | ((top >> 2 * g) & 3) << 4) << to;
    });
    return (typename V::B)four - uint8_t(32);
  }
  static HEDDLE_INLINE typename V::F d(const uint8_t* at, int p) { return Iq4_xs::half(at, 0, p); }
};

}  // namespace
}  // namespace heddle::cpu

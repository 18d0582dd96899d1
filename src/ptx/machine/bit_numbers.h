// What an instruction on bits computes for one lane: logic, shifts, fields, counts, dot products of bytes, moves.
#pragma once
#include "ptx/machine/numbers.h"

namespace heddle::ptx::machine::numbers {

struct And {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(a & b);
  }
};
struct Or {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(a | b);
  }
};
struct Xor {
  template <Integer T>
  T operator()(T a, T b) const {
    return T(a ^ b);
  }
};
struct Not {
  template <Integer T>
  T operator()(T a) const {
    return T(~a);
  }
};
struct NotPred {
  uint32_t operator()(uint32_t a) const { return a ^ 1; }
};
struct Shl {
  template <Integer T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t width = 8 * sizeof(T);
    return T(n < width ? Wrapping<T>(a) << (n & (width - 1)) : 0);
  }
};
struct Shr {
  template <Integer T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t width = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return T(a >> std::min(n, width - 1));
    return T(n < width ? a >> (n & (width - 1)) : 0);
  }
};
struct FunnelLeft {
  uint32_t operator()(uint32_t lo, uint32_t hi, uint32_t n) const {
    return uint32_t((uint64_t(hi) << 32 | lo) << (n & 31) >> 32);
  }
};
struct FunnelRight {
  uint32_t operator()(uint32_t lo, uint32_t hi, uint32_t n) const {
    return uint32_t((uint64_t(hi) << 32 | lo) >> (n & 31));
  }
};
// Position and length are taken from their low 8 bits.
struct Bfe {
  template <Integer T>
  T operator()(T a, uint32_t position, uint32_t length) const {
    constexpr uint32_t width = 8 * sizeof(T);
    const uint32_t pos = position & 255, len = length & 255;
    const T shifted = Shr()(a, pos);  // all zeros, or all signs, if pos is beyond the top
    const uint32_t unused = width - std::min(len, width);
    const T field = T(T(Unsigned<T>(shifted) << (unused & (width - 1))) >> (unused & (width - 1)));
    return len ? field : T(0);
  }
};
struct Bfi {
  template <Integer T>
  T operator()(T field, T base, uint32_t position, uint32_t length) const {
    using U = Unsigned<T>;
    constexpr uint32_t width = 8 * sizeof(T);
    const uint32_t pos = position & 255, len = length & 255;
    const U ones = len < width ? U(U(1) << (len & (width - 1))) - 1 : ~U(0);
    const U mask = Shl()(ones, pos);
    return T((U(base) & ~mask) | (Shl()(U(field), pos) & mask));
  }
};
struct Prmt {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t selector) const {
    uint32_t result = 0;
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t choice = selector >> 4 * i;
      const uint32_t byte = (choice & 4 ? b : a) >> 8 * (choice & 3) & 0xff;
      const uint32_t sign = (0u - (byte >> 7)) & 0xff;
      result |= (choice & 8 ? sign : byte) << 8 * i;
    }
    return result;
  }
};
// Bit abc of the table is the result where the three inputs have the bits a, b, c.
struct Lop3 {
  uint32_t row[8];
  explicit Lop3(uint8_t table) {
    for (uint32_t i = 0; i < 8; ++i) row[i] = 0u - (table >> i & 1);
  }
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    auto choose = [](uint32_t which, uint32_t one, uint32_t zero) { return (which & one) | (~which & zero); };
    return choose(a, choose(b, choose(c, row[7], row[6]), choose(c, row[5], row[4])),
                  choose(b, choose(c, row[3], row[2]), choose(c, row[1], row[0])));
  }
};
struct Popc {
  template <Integer T>
  uint32_t operator()(T a) const {
    return uint32_t(std::popcount(a));
  }
};
struct Clz {
  template <Integer T>
  uint32_t operator()(T a) const {
    return uint32_t(std::countl_zero(a));
  }
};
struct Brev {
  template <Integer T>
  T operator()(T a) const {
    constexpr uint32_t width = 8 * sizeof(T);
    constexpr T all = T(~T(0));
#pragma GCC unroll 6
    for (uint32_t step = width / 2; step; step /= 2) {
      const T low = T(all / ((T(1) << step) + 1));  // groups of `step` ones and `step` zeros, ones lowest
      a = T((a & low) << step | (a >> step & low));
    }
    return a;
  }
};
// Products of the parts of a and b (A and B: one part of each), summed onto c with wrap-around. `skip` parts of b are
// left out.
template <class A, class B, uint32_t parts, uint32_t skip = 0>
struct Dot {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (uint32_t i = 0; i < parts; ++i)
      c += uint32_t(int32_t(A(a >> 8 * sizeof(A) * i))) * uint32_t(int32_t(B(b >> 8 * sizeof(B) * (i + skip))));
    return c;
  }
};
struct Select {
  template <Integer T>
  T operator()(T yes, T no, uint32_t choice) const {
    return choice ? yes : no;
  }
};

struct Identity {
  template <Integer T>
  T operator()(T a) const {
    return a;
  }
};
template <Integer Wide>
struct Join {
  template <Integer Part>
  Wide operator()(Part lo, Part hi) const {
    return Wide(hi) << (8 * sizeof(Part)) | lo;
  }
};

}  // namespace heddle::ptx::machine::numbers

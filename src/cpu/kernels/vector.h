// Helpers over the vector type V of an instruction set, for the kernels. Included by isa_*.cpp alone, and all in an
// unnamed namespace: each instruction set must keep its own copy of every function.
//
// V has: B, I, F (vectors of uint8_t, int32_t, float, of V::width bytes), `vectors` (how many hold 4 bytes of each row
// of a tile), X (16 activations), dot (bytes below 128; where signed_bytes is true, signed ones), dot_wide (signed
// bytes as wide() returns them), registers (how many there are), low_then (low nibbles of a, low nibbles of b above
// them), high_then (high nibbles of a below those of b), table, zero, fma, half, store_half, sixteen (int8 as F),
// has_eight_rows (enough registers), max_pass (rows of activations that meet the weights at once), ahead (bytes before
// their use that weights are prefetched).
#pragma once
#include <cstdint>
#include <cstring>

#include "cpu/prefetch.h"

namespace heddle::cpu {
namespace {

#define HEDDLE_INLINE inline __attribute__((always_inline))
#define HEDDLE_INLINE_LAMBDA __attribute__((always_inline))

template <int n>
struct Int {
  static constexpr int value = n;
};
template <int... n>
struct Ints {};
template <int n, int... rest>
struct CountTo : CountTo<n - 1, n - 1, rest...> {};
template <int... all>
struct CountTo<0, all...> {
  using Type = Ints<all...>;
};
template <class Body, int... n>
HEDDLE_INLINE void each_of(Body&& body, Ints<n...>) {
  (body(Int<n>{}), ...);
}
// body(Int<0>), ..., body(Int<n - 1>): a loop whose counter is a constant.
template <int n, class Body>
HEDDLE_INLINE void each(Body&& body) {
  each_of(body, typename CountTo<n>::Type{});
}
#define HEDDLE_VALUE(i) decltype(i)::value
// A loop that is unrolled, so that arrays with its counter as an index stay in registers. It compiles in half of the
// time of each(), which is for counters that must be constants.
#define HEDDLE_UNROLLED(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < count; ++i)

// (g++ 12 takes a memcpy apart into words, which meet again by way of the stack)
template <class T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};
template <class T>
HEDDLE_INLINE T load(const void* from) {
  return static_cast<const Unaligned<T>*>(from)->value;
}
template <class T>
HEDDLE_INLINE void store(void* to, T value) {
  __builtin_memcpy(to, &value, sizeof value);
}

template <class V>
constexpr int lanes = V::width / 4;
template <class V>
constexpr int tile_rows = V::vectors* lanes<V>;

// Whether V has products with one lane of a vector; others load a number into all lanes.
template <class V>
constexpr bool has_fma_lane = requires(typename V::F f) {
  V::template fma_lane<0>(f, f, f);
};

// Whether V reads two vectors of f16 faster than one and one.
template <class V>
constexpr bool has_two_halves = requires(typename V::F* f) {
  V::two_halves(f, f);
};

// Prefetches the weights that are needed V::ahead bytes after those at `at`.
template <class V, int bytes>
HEDDLE_INLINE void prefetch_ahead(const uint8_t* at) {
  prefetch(at + V::ahead, bytes);
}

// Whether V takes one byte of each word, with its sign, in one operation; others shift it up and down.
template <class V>
constexpr bool has_byte_of = requires(typename V::B b) {
  V::template byte_of<0>(b);
};

// Whether V has int16 sums of products of bytes, to which more can be added before they are widened. Then it has:
// Shorts (of int16), multiply_bytes (the sums of two products each), dot_shorts (adds the products of two neighbours to
// a word), interleaved (the low halves of two vectors of words, in turn), narrow (16 words that fit into int16).
template <class V>
constexpr bool has_shorts = requires {
  typename V::Shorts;
};

template <class V>
HEDDLE_INLINE typename V::F all(float value) {
  return value - typename V::F{};  // (0 + value would not be free: it makes -0 a 0)
}
template <class V>
HEDDLE_INLINE typename V::I all(int32_t value) {
  return typename V::I{} + value;
}
template <class V>
HEDDLE_INLINE typename V::F floats(typename V::I value) {
  return __builtin_convertvector(value, typename V::F);
}
template <class V>
HEDDLE_INLINE typename V::F choose(typename V::I mask, typename V::F yes, typename V::F no) {
  return mask ? yes : no;
}
template <class V>
HEDDLE_INLINE typename V::F larger(typename V::F a, typename V::F b) {
  return choose<V>((typename V::I)(a > b), a, b);
}
// All lanes of a vector of `count` E: one half with the other, until one is left.
template <class E, int count, class Vector, class With>
HEDDLE_INLINE E across(Vector value, With with) {
  if constexpr (count == 1) {
    return value[0];
  } else {
    typedef E Half __attribute__((vector_size(count / 2 * sizeof(E))));
    Half halves[2];
    __builtin_memcpy(halves, &value, sizeof value);
    return across<E, count / 2>(with(halves[0], halves[1]), with);
  }
}
template <class V>
HEDDLE_INLINE float sum_of(typename V::F value) {
  return across<float, lanes<V>>(value, [](auto a, auto b) HEDDLE_INLINE_LAMBDA { return a + b; });
}
template <class V>
HEDDLE_INLINE int32_t sum_of(typename V::I value) {
  return across<int32_t, lanes<V>>(value, [](auto a, auto b) HEDDLE_INLINE_LAMBDA { return a + b; });
}
template <class V>
HEDDLE_INLINE float largest_of(typename V::F value) {
  return across<float, lanes<V>>(value, [](auto a, auto b) HEDDLE_INLINE_LAMBDA { return a > b ? a : b; });
}
template <class V>
HEDDLE_INLINE int32_t largest_of(typename V::I value) {
  return across<int32_t, lanes<V>>(value, [](auto a, auto b) HEDDLE_INLINE_LAMBDA { return a > b ? a : b; });
}

// Vectors gathered from words in many places, and from uint16_t and uint8_t.
template <class V, int width = V::width>
struct Words;
template <class V>
struct Words<V, 16> {
  typedef uint16_t Pairs __attribute__((vector_size(16)));
  typedef uint64_t Eights __attribute__((vector_size(16)));
  static HEDDLE_INLINE typename V::I pairs(const uint8_t* from) {
    const Eights four{load<uint64_t>(from), 0};  // (g++ converts a vector of 8 bytes one by one)
    return (typename V::I)__builtin_shufflevector((Pairs)four, Pairs{}, 0, 8, 1, 9, 2, 10, 3, 11);
  }
  static HEDDLE_INLINE typename V::I bytes(const uint8_t* from) {
    const Eights four{load<uint32_t>(from), 0};
    return (typename V::I)__builtin_shufflevector((typename V::B)four, typename V::B{}, 0, 16, 16, 16, 1, 16, 16, 16, 2,
                                                  16, 16, 16, 3, 16, 16, 16);
  }
  // entry(row) for each row
  template <class Entry>
  static HEDDLE_INLINE typename V::B fours(Entry entry) {
    return (typename V::B) typename V::I{entry(0), entry(1), entry(2), entry(3)};
  }
  // The first or the last four bytes of each entry.
  template <int half, class Entry>
  static HEDDLE_INLINE typename V::B eights(Entry entry) {
    using I = typename V::I;
    const Eights a{entry(0), entry(1)}, b{entry(2), entry(3)};
    return (typename V::B)__builtin_shufflevector((I)a, (I)b, half, 2 + half, 4 + half, 6 + half);
  }
};
template <class V>
struct Words<V, 32> {
  typedef uint16_t Pairs __attribute__((vector_size(16)));
  typedef uint64_t Eights __attribute__((vector_size(32)));
  static HEDDLE_INLINE typename V::I pairs(const uint8_t* from) {
    return __builtin_convertvector(load<Pairs>(from), typename V::I);
  }
  static HEDDLE_INLINE typename V::I bytes(const uint8_t* from) {
    typedef uint8_t Bytes __attribute__((vector_size(16)));
    typedef uint64_t Two __attribute__((vector_size(16)));
    const Two eight{load<uint64_t>(from), 0};
    const auto words =
        (Pairs)__builtin_shufflevector((Bytes)eight, Bytes{}, 0, 16, 1, 16, 2, 16, 3, 16, 4, 16, 5, 16, 6, 16, 7, 16);
    return __builtin_convertvector(words, typename V::I);
  }
  template <class Entry>
  static HEDDLE_INLINE typename V::B fours(Entry entry) {
    return (typename V::B)
        typename V::I{entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6), entry(7)};
  }
  template <int half, class Entry>
  static HEDDLE_INLINE typename V::B eights(Entry entry) {
    using I = typename V::I;  // no word leaves its 16 bytes
    const Eights a{entry(0), entry(1), entry(4), entry(5)}, b{entry(2), entry(3), entry(6), entry(7)};
    return (typename V::B)__builtin_shufflevector((I)a, (I)b, half, 2 + half, 8 + half, 10 + half, 4 + half, 6 + half,
                                                  12 + half, 14 + half);
  }
};
template <class V>
struct Words<V, 64> {
  typedef uint16_t Pairs __attribute__((vector_size(32)));
  typedef uint64_t Eights __attribute__((vector_size(64)));
  static HEDDLE_INLINE typename V::I pairs(const uint8_t* from) {
    return __builtin_convertvector(load<Pairs>(from), typename V::I);
  }
  static HEDDLE_INLINE typename V::I bytes(const uint8_t* from) {
    typedef uint8_t Bytes __attribute__((vector_size(16)));  // (straight to words g++ takes them one by one)
    return __builtin_convertvector(__builtin_convertvector(load<Bytes>(from), Pairs), typename V::I);
  }
  template <class Entry>
  static HEDDLE_INLINE typename V::B fours(Entry entry) {
    return (typename V::B)
        typename V::I{entry(0), entry(1), entry(2),  entry(3),  entry(4),  entry(5),  entry(6),  entry(7),
                      entry(8), entry(9), entry(10), entry(11), entry(12), entry(13), entry(14), entry(15)};
  }
  template <int half, class Entry>
  static HEDDLE_INLINE typename V::B eights(Entry entry) {
    using I = typename V::I;
    const Eights a{entry(0), entry(1), entry(4), entry(5), entry(8), entry(9), entry(12), entry(13)};
    const Eights b{entry(2), entry(3), entry(6), entry(7), entry(10), entry(11), entry(14), entry(15)};
    return (typename V::B)__builtin_shufflevector((I)a, (I)b, half, 2 + half, 16 + half, 18 + half, 4 + half, 6 + half,
                                                  20 + half, 22 + half, 8 + half, 10 + half, 24 + half, 26 + half,
                                                  12 + half, 14 + half, 28 + half, 30 + half);
  }
};

// low_then and high_then for machines without an instruction for it.
template <class B>
HEDDLE_INLINE B low_nibbles_then(B a, B b) {
  return (a & uint8_t(15)) | (b << 4);
}
template <class B>
HEDDLE_INLINE B high_nibbles_then(B a, B b) {
  return (a >> 4) | (b & uint8_t(0xf0));
}

// Nearest integer, ties to even, for |x| < 2^22.
template <class V>
HEDDLE_INLINE typename V::F rounded(typename V::F x) {
  return (x + 12582912.0f) - 12582912.0f;
}

// e^x of some vectors with x from -87 to 88: 2^n * e^r with |r| <= ln 2 / 2; relative error below 2e-7. Step by step
// for all of them: one has to wait for itself at each step.
template <class V, int count>
HEDDLE_INLINE void exponentials_within(typename V::F (&x)[count]) {
  using F = typename V::F;
  using I = typename V::I;
  F shifted[count], r[count], p[count];  // n is in the last bits of `shifted`
  const auto step = [&](auto&& body) HEDDLE_INLINE_LAMBDA {
    each<count>([&](auto i) HEDDLE_INLINE_LAMBDA {
      constexpr int at = HEDDLE_VALUE(i);
      body(x[at], shifted[at], r[at], p[at]);
    });
  };
  step([](F& v, F& s, F&, F&) HEDDLE_INLINE_LAMBDA { s = V::fma(v, all<V>(1.44269504f), all<V>(12582912.0f)); });
  step([](F&, F& s, F& n, F&) HEDDLE_INLINE_LAMBDA { n = s - 12582912.0f; });
  step([](F& v, F&, F& n, F&) HEDDLE_INLINE_LAMBDA { v = V::fma(n, all<V>(-0.693359375f), v); });
  step([](F& v, F&, F& n, F&) HEDDLE_INLINE_LAMBDA { n = V::fma(n, all<V>(2.12194440e-4f), v); });
  step([](F&, F&, F& a, F& b)
           HEDDLE_INLINE_LAMBDA { b = V::fma(all<V>(1.9875691500e-4f), a, all<V>(1.3981999507e-3f)); });
  step([](F&, F&, F& a, F& b) HEDDLE_INLINE_LAMBDA { b = V::fma(b, a, all<V>(8.3334519073e-3f)); });
  step([](F&, F&, F& a, F& b) HEDDLE_INLINE_LAMBDA { b = V::fma(b, a, all<V>(4.1665795894e-2f)); });
  step([](F&, F&, F& a, F& b) HEDDLE_INLINE_LAMBDA { b = V::fma(b, a, all<V>(1.6666665459e-1f)); });
  step([](F&, F&, F& a, F& b) HEDDLE_INLINE_LAMBDA { b = V::fma(b, a, all<V>(5.0000001201e-1f)); });
  step([](F&, F&, F& a, F& b) HEDDLE_INLINE_LAMBDA { b = b * a; });
  step([](F&, F&, F& a, F& b) HEDDLE_INLINE_LAMBDA { b = V::fma(b, a, a + 1.0f); });
  step([](F& v, F& s, F&, F& b) HEDDLE_INLINE_LAMBDA { v = (F)((I)b + ((I)s << 23)); });
}
// e^x: 0 below -87, and at 88 and above e^88.
template <class V>
HEDDLE_INLINE typename V::F exponential(typename V::F x) {
  using F = typename V::F;
  using I = typename V::I;
  const I tiny = (I)(x < -87.0f);
  x = choose<V>((I)(x > 88.0f), all<V>(88.0f), choose<V>(tiny, all<V>(-87.0f), x));
  F result[] = {x};
  exponentials_within<V>(result);
  return choose<V>(tiny, F{}, result[0]);
}

// tanh, by e^(2 |x|); beyond 9 it is 1 in f32.
template <class V>
HEDDLE_INLINE typename V::F tangent(typename V::F x) {
  using F = typename V::F;
  using I = typename V::I;
  const I sign = (I)x & all<V>(int32_t(0x80000000));
  F size = (F)((I)x & all<V>(int32_t(0x7fffffff)));
  size = choose<V>((I)(size > 10.0f), all<V>(10.0f), size);
  // for small x the difference below would cancel
  const F small = size - size * size * size * (1.0f / 3.0f);
  const F large = 1.0f - 2.0f / (exponential<V>(size + size) + 1.0f);
  return (F)((I)choose<V>((I)(size < 0.02f), small, large) | sign);
}

}  // namespace
}  // namespace heddle::cpu

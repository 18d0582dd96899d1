// Instructions on bits: logic, shifts, fields, counts, permutes, dot products of bytes, moves and constants.
#include "tests/ptx/cases/elementwise.h"

namespace heddle::ptx::cases {

namespace {

// --- bits -----------------------------------------------------------------------------------------------------------
// Bit i of x; beyond the top, what the caller makes of it.
uint64_t bit(uint64_t x, uint32_t i) { return i < 64 ? x >> i & 1 : 0; }

void add_logic(ArithmeticCases& c) {
  // truth[a + 2 * b] is the result's bit
  auto bitwise = [](uint32_t width, std::array<uint64_t, 4> truth) {
    return [width, truth](const uint64_t* in, uint64_t* out) {
      for (uint32_t i = 0; i < width; ++i) out[0] |= truth[bit(in[0], i) + 2 * bit(in[1], i)] << i;
    };
  };
  each(List<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, bool>(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    constexpr uint32_t width = std::same_as<T, bool> ? 1 : 8 * sizeof(T);
    Elementwise e{.sources = {any(t), any(t)}};
    e.name = "and." + type_name<T>();
    e.reference = bitwise(width, {0, 0, 0, 1});
    c.add<T, T, T>(e, [](Code&, Val<T> a, Val<T> b) { return a & b; });
    e.name = "or." + type_name<T>();
    e.reference = bitwise(width, {0, 1, 1, 1});
    c.add<T, T, T>(e, [](Code&, Val<T> a, Val<T> b) { return a | b; });
    e.name = "xor." + type_name<T>();
    e.reference = bitwise(width, {0, 1, 1, 0});
    c.add<T, T, T>(e, [](Code&, Val<T> a, Val<T> b) { return a ^ b; });
    e.name = "not." + type_name<T>();
    e.reference = bitwise(width, {1, 0, 1, 0});
    e.sources = {any(t)};
    c.add<T, T>(e, [](Code&, Val<T> a) { return ~a; });
  });
  for (int table : {0x00, 0x01, 0x17, 0x1e, 0x40, 0x6a, 0x80, 0x96, 0xb8, 0xca, 0xe8, 0xea, 0xf0, 0xfe, 0xff}) {
    auto reference = [table](const uint64_t* in, uint64_t* out) {
      for (uint32_t i = 0; i < 32; ++i) {
        const uint64_t row = 4 * bit(in[0], i) + 2 * bit(in[1], i) + bit(in[2], i);
        out[0] |= bit(uint64_t(table), uint32_t(row)) << i;
      }
    };
    const Source word = bits_of(Type::u32);
    c.add<uint32_t, uint32_t, uint32_t, uint32_t>(
        {.name = fmt::format("lop3.{:#04x}.b32", table), .sources = {word, word, word}, .reference = reference},
        [table](Code&, U32 a, U32 b, U32 x) { return lop3(a, b, x, uint8_t(table)); });
  }
}
void add_shifts(ArithmeticCases& c) {
  each(Integers(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    constexpr uint32_t width = 8 * sizeof(T);
    c.add<T, T, uint32_t>({.name = "shl." + type_name<T>(),
                           .sources = {integers(t), amounts(width)},
                           .reference =
                               [](const uint64_t* in, uint64_t* out) {
                                 uint128 v = in[0];
                                 for (uint64_t i = 0; i < in[1] && i < width; ++i) v *= 2;
                                 out[0] = wrapped(t, int128(v));
                               }},
                          [](Code&, Val<T> a, U32 n) { return a << n; });
    c.add<T, T, uint32_t>({.name = "shr." + type_name<T>(),
                           .sources = {integers(t), amounts(width)},
                           .reference =
                               [](const uint64_t* in, uint64_t* out) {
                                 int128 v = integer_value(t, in[0]);
                                 for (uint64_t i = 0; i < in[1] && i < width; ++i)
                                   v = (v - (v < 0 && v % 2)) / 2;  // rounds down
                                 out[0] = wrapped(t, v);
                               }},
                          [](Code&, Val<T> a, U32 n) { return a >> n; });
  });
  auto funnel = [](bool left) {
    return [left](const uint64_t* in, uint64_t* out) {
      const uint64_t both = in[1] * 0x100000000u + in[0];
      const uint32_t n = uint32_t(in[2] % 32), from = left ? 32 - n : n;
      for (uint32_t i = 0; i < 32; ++i) out[0] |= bit(both, from + i) << i;
    };
  };
  Elementwise e{.sources = {integers(Type::u32), integers(Type::u32), amounts(32)}};
  e.name = "shf.l.wrap.b32";
  e.reference = funnel(true);
  c.add<uint32_t, uint32_t, uint32_t, uint32_t>(e, [](Code&, U32 lo, U32 hi, U32 n) { return funnel_left(lo, hi, n); });
  e.name = "shf.r.wrap.b32";
  e.reference = funnel(false);
  c.add<uint32_t, uint32_t, uint32_t, uint32_t>(e,
                                                [](Code&, U32 lo, U32 hi, U32 n) { return funnel_right(lo, hi, n); });
}
// As the manual writes them, bit by bit. It has positions and lengths up to 255; a GPU treats larger ones of 64-bit
// fields in its own way.
void add_bit_fields(ArithmeticCases& c) {
  auto places = [](uint32_t width) { return without(amounts(width), [](uint64_t n) { return n > 255; }); };
  each(WideIntegers(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    constexpr uint32_t width = 8 * sizeof(T), msb = width - 1;
    auto extract = [=](const uint64_t* in, uint64_t* out) {
      const uint32_t pos = in[1] & 0xff, len = in[2] & 0xff;
      const uint64_t sign = std::is_signed_v<T> && len ? bit(in[0], std::min(pos + len - 1, msb)) : 0;
      for (uint32_t i = 0; i <= msb; ++i) out[0] |= (i < len && pos + i <= msb ? bit(in[0], pos + i) : sign) << i;
    };
    c.add<T, T, uint32_t, uint32_t>(
        {.name = "bfe." + type_name<T>(), .sources = {integers(t), places(width), places(width)}, .reference = extract},
        [](Code&, Val<T> a, U32 pos, U32 len) { return bit_field(a, pos, len); });
    auto insert = [](const uint64_t* in, uint64_t* out) {  // base, field, pos, len
      const uint32_t pos = in[2] & 0xff, len = in[3] & 0xff;
      for (uint32_t i = 0; i <= msb; ++i) {
        const bool inside = i >= pos && i - pos < len;
        out[0] |= (inside ? bit(in[1], i - pos) : bit(in[0], i)) << i;
      }
    };
    Source few = integers(t);
    few.special = {0, wrapped(t, -1), wrapped(t, int128(0x123456789abcdef1))};
    c.add<T, T, T, uint32_t, uint32_t>(
        {.name = "bfi." + type_name<T>(), .sources = {few, few, places(width), places(width)}, .reference = insert},
        [](Code&, Val<T> base, Val<T> field, U32 pos, U32 len) { return insert_bits(base, field, pos, len); });
  });
}
void add_bit_counts(ArithmeticCases& c) {
  each(List<uint32_t, uint64_t>(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    constexpr uint32_t width = 8 * sizeof(T);
    Source values = integers(t);
    for (uint32_t i = 0; i < width; ++i) values.special.push_back(uint64_t(1) << i);
    auto mask = [](Rng& rng, uint64_t* in) { in[0] = rng() & rng() & (~uint64_t(0) >> (64 - width) >> rng() % width); };
    Elementwise e{.sources = {values}, .relate = mask};
    e.name = "popc." + type_name<T>();
    e.reference = [](const uint64_t* in, uint64_t* out) {
      for (uint32_t i = 0; i < width; ++i) out[0] += bit(in[0], i);
    };
    c.add<uint32_t, T>(e, [](Code&, Val<T> a) { return popcount(a); });
    e.name = "clz." + type_name<T>();
    e.reference = [](const uint64_t* in, uint64_t* out) {
      while (out[0] < width && !bit(in[0], width - 1 - uint32_t(out[0]))) ++out[0];
    };
    c.add<uint32_t, T>(e, [](Code&, Val<T> a) { return leading_zeros(a); });
    e.name = "brev." + type_name<T>();
    e.reference = [](const uint64_t* in, uint64_t* out) {
      for (uint32_t i = 0; i < width; ++i) out[0] |= bit(in[0], i) << (width - 1 - i);
    };
    c.add<T, T>(e, [](Code&, Val<T> a) { return reverse_bits(a); });
  });
}
void add_permute(ArithmeticCases& c) {
  Source selectors{{0x3210, 0x7654, 0x0123, 0x5140, 0xba98, 0xfedc, 0x8888, 0xffff3210},
                   [](Rng& rng) { return rng() & 0xffffffff; }};
  auto reference = [](const uint64_t* in, uint64_t* out) {
    const uint64_t operands[2] = {in[0], in[1]};
    for (int i = 0; i < 4; ++i) {
      const int choice = int(in[2] >> 4 * i & 15), index = choice % 8;
      uint64_t byte = operands[index / 4] >> index % 4 * 8 & 255;
      if (choice >= 8) byte = byte >= 128 ? 255 : 0;
      out[0] |= byte << 8 * i;
    }
  };
  const Source word = bits_of(Type::u32);
  c.add<uint32_t, uint32_t, uint32_t, uint32_t>(
      {.name = "prmt.b32", .sources = {word, word, selectors}, .reference = reference},
      [](Code&, U32 a, U32 b, U32 s) { return permute_bytes(a, b, s); });
}

// --- dot products ---------------------------------------------------------------------------------------------------
template <class A, class B>
void add_dots(ArithmeticCases& c) {
  using R = std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>;
  const std::string suffix =
      std::string(std::is_signed_v<A> ? ".s32" : ".u32") + (std::is_signed_v<B> ? ".s32" : ".u32");
  Source words = bits_of(Type::u32);
  words.special = {0, 0xffffffff, 0x80808080, 0x7f7f7f7f, 0x80007fff, 0x01020304};
  // parts of a times parts of b from `first` on
  auto dot = [](Type a, Type b, uint32_t parts, uint32_t first) {
    return [=](const uint64_t* in, uint64_t* out) {
      int128 total = int128(in[2]);
      for (uint32_t i = 0; i < parts; ++i)
        total +=
            integer_value(a, in[0] >> 8 * size_of(a) * i) * integer_value(b, in[1] >> 8 * size_of(b) * (first + i));
      out[0] = wrapped(Type::u32, total);
    };
  };
  using Pair = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
  Elementwise e{.sources = {words, words, integers(type_of<R>)}};
  e.name = "dp4a" + suffix;
  e.reference = dot(type_of<A>, type_of<B>, 4, 0);
  c.add<R, uint32_t, uint32_t, R>(e, [](Code&, U32 a, U32 b, Val<R> x) { return dp4a<A, B>(a, b, x); });
  for (bool high : {false, true}) {
    e.name = (high ? "dp2a.hi" : "dp2a.lo") + suffix;
    e.reference = dot(type_of<Pair>, type_of<B>, 2, high ? 2 : 0);
    c.add<R, uint32_t, uint32_t, R>(e, [high](Code&, U32 a, U32 b, Val<R> x) { return dp2a<Pair, B>(a, b, x, high); });
  }
}

// --- moves ----------------------------------------------------------------------------------------------------------
template <class T>
T constant_of(uint64_t bits) {
  if constexpr (sizeof(T) == 2) return std::bit_cast<T>(uint16_t(bits));
  if constexpr (sizeof(T) == 4) return std::bit_cast<T>(uint32_t(bits));
  if constexpr (sizeof(T) == 8) return std::bit_cast<T>(bits);
}
void add_moves(ArithmeticCases& c) {
  auto keep = [](const uint64_t* in, uint64_t* out) { out[0] = in[0]; };
  auto by_type = [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    const Source values = std::same_as<T, bool> ? any(t) : bits_of(t);
    c.add<T, T>({.name = "mov." + type_name<T>(), .sources = {values}, .reference = keep}, [](Code& k, Val<T> a) {
      Var<T> v = k.var(a);
      return v.get();
    });
    if constexpr (!std::same_as<T, bool>)
      c.add<T, bool, T, T>({.name = "selp." + type_name<T>(),
                            .sources = {any(Type::pred), values, values},
                            .reference = [](const uint64_t* in, uint64_t* out) { out[0] = in[0] ? in[1] : in[2]; }},
                           [](Code&, Pred p, Val<T> a, Val<T> b) { return select(p, a, b); });
  };
  each(Integers(), by_type);
  each(Floats(), by_type);
  each(List<bool, tf32, e4m3x2, e5m2x2>(), by_type);
}
// A constant as an operand, and as the source of a move.
template <class T>
void add_constant(ArithmeticCases& c, uint64_t bits) {
  constexpr Type t = type_of<T>;
  const T v = constant_of<T>(bits);
  const std::string suffix = fmt::format("{}.imm_{:#x}", type_name<T>(), bits);
  c.add<T, T>({.name = "mov." + suffix,
               .sources = {bits_of(t)},
               .reference = [bits](const uint64_t*, uint64_t* out) { out[0] = bits; }},
              [v](Code& k, Val<T>) { return k.constant(v); });
  Elementwise e{.name = "add." + suffix, .sources = {any(t)}, .judge = is_float(t) ? nan_by_class(t) : Judge()};
  if constexpr (AnyInt<T>)
    e.reference = [bits](const uint64_t* in, uint64_t* out) { out[0] = wrapped(t, int128(in[0]) + int128(bits)); };
  else
    e.reference = by_part(t, [bits](const Format& f, const uint64_t* in) {
      const uint64_t one = bits & (2 * f.sign() - 1);  // both halves of a packed constant are equal here
      return encode(f, sum(decode(f, in[0]), decode(f, one), Round::rn), Round::rn);
    });
  c.add<T, T>(e, [v](Code&, Val<T> a) { return a + v; });
}
void add_constants(ArithmeticCases& c) {
  add_constant<uint16_t>(c, 0xbeef);
  add_constant<int16_t>(c, 0x8000);
  for (uint64_t bits : {0x0u, 0xffffffffu, 0x80000000u}) {
    add_constant<uint32_t>(c, bits);
    add_constant<int32_t>(c, bits);
  }
  for (uint64_t bits : {uint64_t(0xffffffff), uint64_t(1) << 63, ~uint64_t(1)}) {
    add_constant<uint64_t>(c, bits);
    add_constant<int64_t>(c, bits);
  }
  for (uint64_t bits : {0x3555, 0x8000, 0xfc00}) {
    add_constant<heddle::f16>(c, bits);
    add_constant<heddle::bf16>(c, bits);
  }
  for (uint64_t bits : {0x35553555u, 0x80008000u}) {
    add_constant<f16x2>(c, bits);
    add_constant<bf16x2>(c, bits);
  }
  for (uint64_t bits : {0x3dcccccdu, 0x80000000u, 0x7f800000u, 0x00000001u}) add_constant<float>(c, bits);
  for (uint64_t bits : {uint64_t(0x3fb999999999999a), uint64_t(0xfff0000000000000)}) add_constant<double>(c, bits);
}

}  // namespace

void add_bits(std::vector<Case>& all) {
  ArithmeticCases c{all};
  add_moves(c);
  add_constants(c);
  add_logic(c);
  add_shifts(c);
  add_bit_fields(c);
  add_bit_counts(c);
  add_permute(c);
  add_dots<uint8_t, uint8_t>(c);
  add_dots<uint8_t, int8_t>(c);
  add_dots<int8_t, uint8_t>(c);
  add_dots<int8_t, int8_t>(c);
}

}  // namespace heddle::ptx::cases

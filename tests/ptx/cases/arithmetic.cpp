// Every arithmetic instruction the builder offers, by type and modifier.
#include "tests/ptx/cases/elementwise.h"

namespace heddle::ptx::cases {
namespace {

using WideIntegers = List<uint32_t, int32_t, uint64_t, int64_t>;
using Signed = List<int16_t, int32_t, int64_t>;
using Halves = List<heddle::f16, heddle::bf16, f16x2, bf16x2>;
using Floats = List<heddle::f16, heddle::bf16, f16x2, bf16x2, float, double>;

Reference by_value(Type t, int128 (*f)(int128, int128)) {
  return [t, f](const uint64_t* in, uint64_t* out) {
    out[0] = wrapped(t, f(integer_value(t, in[0]), integer_value(t, in[1])));
  };
}

struct Cases {
  std::vector<Case>& all;

  // A result of type R from operands of types A...
  template <class R, class... A, class F>
  void add(Elementwise e, F apply) {
    e.family = "arithmetic";
    all.push_back(elementwise<R, A...>(std::move(e), apply));
  }
  // Integers by value: what f gives is wrapped to T.
  template <class T, class F>
  void integer(std::string op, Source second, int128 (*f)(int128, int128), F apply) {
    add<T, T, T>({.name = op + "." + type_name<T>(),
                  .sources = {integers(type_of<T>), std::move(second)},
                  .reference = by_value(type_of<T>, f)},
                 apply);
  }
};

// A NaN of f64 may carry a payload; that of the other types is the one NaN.
Judge judge_of(Type t) { return t == Type::f64 ? nan_by_class(t) : Judge(); }
std::string bound_of(Type t) { return t == Type::f64 ? "exact, any NaN" : "exact"; }

// f(format, operands) on each half of packed operands, or on the operands themselves.
template <class F>
Reference by_part(Type t, F f) {
  return [t, f, format = format_of(t)](const uint64_t* in, uint64_t* out) {
    if (!is_packed(t)) {
      out[0] = f(format, in);
      return;
    }
    for (int part = 0; part < 2; ++part) {
      uint64_t half[3];
      for (int i = 0; i < 3; ++i) half[i] = in[i] >> 16 * part & 0xffff;
      out[0] |= f(format, half) << 16 * part;
    }
  };
}

// --- sums, products -------------------------------------------------------------------------------------------------
template <class T>
Elementwise sum_case(std::string name, Round r, bool subtract) {
  constexpr Type t = type_of<T>;
  auto reference = by_part(t, [r, subtract](const Format& f, const uint64_t* in) {
    Real b = decode(f, in[1]);
    b.negative ^= subtract;
    return encode(f, sum(decode(f, in[0]), b, r), r);
  });
  const uint64_t sign = format_of(t).sign(), signs = subtract ? 0 : is_packed(t) ? sign << 16 | sign : sign;
  auto cancel = [signs](Rng& rng, uint64_t* in) { in[1] = (in[0] ^ signs) + rng() % 3 - 1; };
  return {.name = name,
          .sources = {floats(t), floats(t)},
          .reference = reference,
          .judge = judge_of(t),
          .bound = bound_of(t),
          .relate = cancel};
}
template <class T>
Elementwise product_case(Round r) {
  constexpr Type t = type_of<T>;
  auto reference = by_part(t, [r](const Format& f, const uint64_t* in) {
    return encode(f, product(decode(f, in[0]), decode(f, in[1])), r);
  });
  return {.name = "mul." + spelled(r) + "." + type_name<T>(),
          .sources = {floats(t), floats(t)},
          .reference = reference,
          .judge = judge_of(t),
          .bound = bound_of(t)};
}
template <class T>
Elementwise fused_case(Round r) {
  constexpr Type t = type_of<T>;
  auto reference = by_part(t, [r](const Format& f, const uint64_t* in) {
    return encode(f, sum(product(decode(f, in[0]), decode(f, in[1])), decode(f, in[2]), r), r);
  });
  // the addend cancels most of the product, or lies where it or the product decides a tie
  auto relate = [f = format_of(t)](Rng& rng, uint64_t* in) {
    const uint64_t part = 2 * f.sign() - 1;
    Real p = product(decode(f, in[0] & part), decode(f, in[1] & part));
    p.negative ^= rng() % 4 != 0;
    p.exponent += std::array{0, 0, f.fraction_bits, f.fraction_bits + 1, -f.fraction_bits - 1}[rng() % 5];
    in[2] = encode(f, p, Round::rz) ^ rng() % 2;
    if (is_packed(t)) in[2] |= in[2] << 16;
  };
  return {.name = "fma." + spelled(r) + "." + type_name<T>(),
          .sources = {floats(t), floats(t), floats(t)},
          .reference = reference,
          .judge = judge_of(t),
          .bound = bound_of(t),
          .relate = relate};
}
void add_float_sums_and_products(Cases& c) {
  each(Halves(), [&]<class T>(std::type_identity<T>) {
    const std::string suffix = ".rn." + type_name<T>();
    c.add<T, T, T>(sum_case<T>("add" + suffix, Round::rn, false), [](Code&, Val<T> a, Val<T> b) { return a + b; });
    c.add<T, T, T>(sum_case<T>("sub" + suffix, Round::rn, true), [](Code&, Val<T> a, Val<T> b) { return a - b; });
    c.add<T, T, T>(product_case<T>(Round::rn), [](Code&, Val<T> a, Val<T> b) { return a * b; });
    c.add<T, T, T, T>(fused_case<T>(Round::rn), [](Code&, Val<T> a, Val<T> b, Val<T> x) { return fma(a, b, x); });
  });
  each(List<float, double>(), [&]<class T>(std::type_identity<T>) {
    for (Round r : roundings) {
      const std::string suffix = "." + spelled(r) + "." + type_name<T>();
      c.add<T, T, T>(sum_case<T>("add" + suffix, r, false), [r](Code&, Val<T> a, Val<T> b) { return add(r, a, b); });
      c.add<T, T, T>(sum_case<T>("sub" + suffix, r, true), [r](Code&, Val<T> a, Val<T> b) { return sub(r, a, b); });
      c.add<T, T, T>(product_case<T>(r), [r](Code&, Val<T> a, Val<T> b) { return mul(r, a, b); });
      c.add<T, T, T, T>(fused_case<T>(r), [r](Code&, Val<T> a, Val<T> b, Val<T> x) { return fma(r, a, b, x); });
    }
  });
}

int128 wrapping_product(int128 a, int128 b) { return int128(uint128(a) * uint128(b)); }
template <class T>
int128 high_half(int128 a, int128 b) {
  const int width = 8 * sizeof(T);
  return std::is_signed_v<T> ? a * b >> width : int128(uint128(a) * uint128(b) >> width);
}
void add_integer_sums_and_products(Cases& c) {
  each(Integers(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    c.integer<T>(
        "add", integers(t), [](int128 a, int128 b) { return a + b; }, [](Code&, Val<T> a, Val<T> b) { return a + b; });
    c.integer<T>(
        "sub", integers(t), [](int128 a, int128 b) { return a - b; }, [](Code&, Val<T> a, Val<T> b) { return a - b; });
    c.integer<T>("mul.lo", integers(t), wrapping_product, [](Code&, Val<T> a, Val<T> b) { return a * b; });
    c.integer<T>("mul.hi", integers(t), high_half<T>, [](Code&, Val<T> a, Val<T> b) { return mul_hi(a, b); });
    auto mad_reference = [](const uint64_t* in, uint64_t* out) {
      out[0] = wrapped(t, int128(uint128(in[0]) * uint128(in[1]) + uint128(in[2])));
    };
    c.add<T, T, T, T>({.name = "mad.lo." + type_name<T>(),
                       .sources = {integers(t), integers(t), integers(t)},
                       .reference = mad_reference},
                      [](Code&, Val<T> a, Val<T> b, Val<T> x) { return mad(a, b, x); });
  });
  each(List<uint16_t, int16_t, uint32_t, int32_t>(), [&]<class T>(std::type_identity<T>) {
    using W = WiderT<T>;
    constexpr Type t = type_of<T>, wide = type_of<W>;
    auto product_of = [](const uint64_t* in) { return integer_value(t, in[0]) * integer_value(t, in[1]); };
    c.add<W, T, T>({.name = "mul.wide." + type_name<T>(),
                    .sources = {integers(t), integers(t)},
                    .reference = [=](const uint64_t* in, uint64_t* out) { out[0] = wrapped(wide, product_of(in)); }},
                   [](Code&, Val<T> a, Val<T> b) { return mul_wide(a, b); });
    c.add<W, T, T, W>({.name = "mad.wide." + type_name<T>(),
                       .sources = {integers(t), integers(t), integers(wide)},
                       .reference = [=](const uint64_t* in,
                                        uint64_t* out) { out[0] = wrapped(wide, product_of(in) + int128(in[2])); }},
                      [](Code&, Val<T> a, Val<T> b, Val<W> x) { return mad_wide(a, b, x); });
  });
}

// --- quotients, roots -----------------------------------------------------------------------------------------------
// C++'s, in 128 bits: the least number divided by -1 is its own opposite, which wraps.
void add_integer_division(Cases& c) {
  each(Integers(), [&]<class T>(std::type_identity<T>) {
    const Source divisors = without(integers(type_of<T>), [](uint64_t v) { return v == 0; });
    c.integer<T>(
        "div", divisors, [](int128 a, int128 b) { return a / b; }, [](Code&, Val<T> a, Val<T> b) { return a / b; });
    c.integer<T>(
        "rem", divisors, [](int128 a, int128 b) { return a % b; }, [](Code&, Val<T> a, Val<T> b) { return a % b; });
  });
}
// f32 division and roots are sequences of instructions on the device, whose NaN the manual leaves open.
void add_float_division(Cases& c) {
  each(List<float, double>(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    const Format f = format_of(t);
    for (Round r : roundings) {
      const std::string suffix = "." + spelled(r) + "." + type_name<T>();
      Elementwise e{.judge = nan_by_class(t), .bound = "exact, any NaN"};
      e.name = "div" + suffix, e.sources = {floats(t), floats(t)};
      e.reference = [=](const uint64_t* in, uint64_t* out) {
        out[0] = encode(f, quotient(decode(f, in[0]), decode(f, in[1])), r);
      };
      c.add<T, T, T>(e, [r](Code&, Val<T> a, Val<T> b) { return div(r, a, b); });
      e.name = "rcp" + suffix, e.sources = {floats(t)};
      e.reference = [=](const uint64_t* in, uint64_t* out) {
        out[0] = encode(f, quotient(integer(1), decode(f, in[0])), r);
      };
      c.add<T, T>(e, [r](Code&, Val<T> a) { return rcp(a, r); });
      e.name = "sqrt" + suffix;
      e.reference = [=](const uint64_t* in, uint64_t* out) { out[0] = encode(f, root(decode(f, in[0])), r); };
      c.add<T, T>(e, [r](Code&, Val<T> a) { return sqrt(a, r); });
    }
  });
}

// --- sign, order ----------------------------------------------------------------------------------------------------
// The operand that is smaller or larger; the other one where one is NaN; -0 below +0.
uint64_t extreme(const Format& f, uint64_t a, uint64_t b, bool greater) {
  if (f.is_nan(a) && f.is_nan(b)) return f.nan();
  if (f.is_nan(a) || f.is_nan(b)) return f.is_nan(a) ? b : a;
  const double x = value_of(f, a), y = value_of(f, b);
  const bool a_below = x < y || (x == y && std::signbit(x));
  return a_below != greater ? a : b;
}
template <class T>
Elementwise extreme_case(const char* op, bool greater) {
  constexpr Type t = type_of<T>;
  Elementwise e{
      .name = op + ("." + type_name<T>()), .sources = {any(t), any(t)}, .judge = judge_of(t), .bound = bound_of(t)};
  e.relate = [](Rng& rng, uint64_t* in) { in[1] = in[0] + rng() % 3 - 1; };
  if constexpr (AnyInt<T>)
    e.reference = [greater](const uint64_t* in, uint64_t* out) {
      out[0] = wrapped(t, in[(integer_value(t, in[0]) < integer_value(t, in[1])) == greater]);
    };
  else
    e.reference =
        by_part(t, [greater](const Format& f, const uint64_t* in) { return extreme(f, in[0], in[1], greater); });
  return e;
}
void add_order(Cases& c) {
  auto extremes = [&]<class T>(std::type_identity<T>) {
    c.add<T, T, T>(extreme_case<T>("min", false), [](Code&, Val<T> a, Val<T> b) { return min(a, b); });
    c.add<T, T, T>(extreme_case<T>("max", true), [](Code&, Val<T> a, Val<T> b) { return max(a, b); });
  };
  each(Integers(), extremes);
  each(Floats(), extremes);
}
void add_signs(Cases& c) {
  each(Integers(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    c.add<T, T>({.name = "neg." + type_name<T>(),
                 .sources = {integers(t)},
                 .reference = [](const uint64_t* in, uint64_t* out) { out[0] = wrapped(t, -integer_value(t, in[0])); }},
                [](Code&, Val<T> a) { return -a; });
  });
  each(Signed(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    auto reference = [](const uint64_t* in, uint64_t* out) {
      const int128 v = integer_value(t, in[0]);
      out[0] = wrapped(t, v < 0 ? -v : v);
    };
    c.add<T, T>({.name = "abs." + type_name<T>(), .sources = {integers(t)}, .reference = reference},
                [](Code&, Val<T> a) { return abs(a); });
  });
  each(Floats(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    Elementwise e{.sources = {floats(t)}, .judge = nan_by_class(t), .bound = "exact, any NaN"};
    e.name = "neg." + type_name<T>();
    e.reference = by_part(
        t, [](const Format& f, const uint64_t* in) { return in[0] & f.sign() ? in[0] - f.sign() : in[0] + f.sign(); });
    c.add<T, T>(e, [](Code&, Val<T> a) { return -a; });
    e.name = "abs." + type_name<T>();
    e.reference = by_part(t, [](const Format& f, const uint64_t* in) { return in[0] % f.sign(); });
    c.add<T, T>(e, [](Code&, Val<T> a) { return abs(a); });
  });
}
// What each comparison says of less, equal, greater, unordered.
struct Comparison {
  Compare how;
  const char* name;
  const char* truth;  // of "<=>?"
};
constexpr Comparison comparisons[] = {
    {Compare::eq, "eq", "="},     {Compare::ne, "ne", "<>"},    {Compare::lt, "lt", "<"},
    {Compare::le, "le", "<="},    {Compare::gt, "gt", ">"},     {Compare::ge, "ge", ">="},
    {Compare::equ, "equ", "=?"},  {Compare::neu, "neu", "<>?"}, {Compare::ltu, "ltu", "<?"},
    {Compare::leu, "leu", "<=?"}, {Compare::gtu, "gtu", ">?"},  {Compare::geu, "geu", ">=?"},
    {Compare::num, "num", "<=>"}, {Compare::nan, "nan", "?"},
};
template <class T>
char relation(const uint64_t* in) {
  constexpr Type t = type_of<T>;
  if constexpr (AnyInt<T>) {
    const int128 a = integer_value(t, in[0]), b = integer_value(t, in[1]);
    return a < b ? '<' : a > b ? '>' : '=';
  } else {
    const double a = value_of(format_of(t), in[0]), b = value_of(format_of(t), in[1]);
    return std::isnan(a) || std::isnan(b) ? '?' : a < b ? '<' : a > b ? '>' : '=';
  }
}
void add_comparisons(Cases& c) {
  each(List<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, heddle::f16, heddle::bf16, float, double>(),
       [&]<class T>(std::type_identity<T>) {
         for (const Comparison& one : comparisons) {
           if (AnyInt<T> && one.how > Compare::ge) continue;
           Elementwise e{.name = "setp." + std::string(one.name) + "." + type_name<T>(),
                         .sources = {any(type_of<T>), any(type_of<T>)}};
           e.reference = [truth = std::string(one.truth)](const uint64_t* in, uint64_t* out) {
             out[0] = truth.find(relation<T>(in)) != std::string::npos;
           };
           e.relate = [](Rng& rng, uint64_t* in) { in[1] = in[0] + rng() % 3 - 1; };
           c.add<bool, T, T>(e, [how = one.how](Code&, Val<T> a, Val<T> b) { return compare(how, a, b); });
         }
       });
}

// --- bits -----------------------------------------------------------------------------------------------------------
// Bit i of x; beyond the top, what the caller makes of it.
uint64_t bit(uint64_t x, uint32_t i) { return i < 64 ? x >> i & 1 : 0; }

void add_logic(Cases& c) {
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
    e.name = "and." + type_name<T>(), e.reference = bitwise(width, {0, 0, 0, 1});
    c.add<T, T, T>(e, [](Code&, Val<T> a, Val<T> b) { return a & b; });
    e.name = "or." + type_name<T>(), e.reference = bitwise(width, {0, 1, 1, 1});
    c.add<T, T, T>(e, [](Code&, Val<T> a, Val<T> b) { return a | b; });
    e.name = "xor." + type_name<T>(), e.reference = bitwise(width, {0, 1, 1, 0});
    c.add<T, T, T>(e, [](Code&, Val<T> a, Val<T> b) { return a ^ b; });
    e.name = "not." + type_name<T>(), e.reference = bitwise(width, {1, 0, 1, 0}), e.sources = {any(t)};
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
void add_shifts(Cases& c) {
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
  e.name = "shf.l.wrap.b32", e.reference = funnel(true);
  c.add<uint32_t, uint32_t, uint32_t, uint32_t>(e, [](Code&, U32 lo, U32 hi, U32 n) { return funnel_left(lo, hi, n); });
  e.name = "shf.r.wrap.b32", e.reference = funnel(false);
  c.add<uint32_t, uint32_t, uint32_t, uint32_t>(e,
                                                [](Code&, U32 lo, U32 hi, U32 n) { return funnel_right(lo, hi, n); });
}
// As the manual writes them, bit by bit. It has positions and lengths up to 255; a GPU treats larger ones of 64-bit
// fields in its own way.
void add_bit_fields(Cases& c) {
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
void add_bit_counts(Cases& c) {
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
void add_permute(Cases& c) {
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
void add_dots(Cases& c) {
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
  e.name = "dp4a" + suffix, e.reference = dot(type_of<A>, type_of<B>, 4, 0);
  c.add<R, uint32_t, uint32_t, R>(e, [](Code&, U32 a, U32 b, Val<R> x) { return dp4a<A, B>(a, b, x); });
  for (bool high : {false, true}) {
    e.name = (high ? "dp2a.hi" : "dp2a.lo") + suffix, e.reference = dot(type_of<Pair>, type_of<B>, 2, high ? 2 : 0);
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
void add_moves(Cases& c) {
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
// A constant as an operand, and as all there is to move.
template <class T>
void add_constant(Cases& c, uint64_t bits) {
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
void add_constants(Cases& c) {
  add_constant<uint16_t>(c, 0xbeef), add_constant<int16_t>(c, 0x8000);
  for (uint64_t bits : {0x0u, 0xffffffffu, 0x80000000u})
    add_constant<uint32_t>(c, bits), add_constant<int32_t>(c, bits);
  for (uint64_t bits : {uint64_t(0xffffffff), uint64_t(1) << 63, ~uint64_t(1)})
    add_constant<uint64_t>(c, bits), add_constant<int64_t>(c, bits);
  for (uint64_t bits : {0x3555, 0x8000, 0xfc00})
    add_constant<heddle::f16>(c, bits), add_constant<heddle::bf16>(c, bits);
  for (uint64_t bits : {0x35553555u, 0x80008000u}) add_constant<f16x2>(c, bits), add_constant<bf16x2>(c, bits);
  for (uint64_t bits : {0x3dcccccdu, 0x80000000u, 0x7f800000u, 0x00000001u}) add_constant<float>(c, bits);
  for (uint64_t bits : {uint64_t(0x3fb999999999999a), uint64_t(0xfff0000000000000)}) add_constant<double>(c, bits);
}

// --- approximate functions ------------------------------------------------------------------------------------------
// The bounds are those of the manual's section on each instruction; one unit more, or half a unit in the last place,
// is the rounding of the value compared with.
Reference exactly(Type t, long double (*f)(long double)) {
  return by_part(t, [f](const Format& format, const uint64_t* in) {
    return encode(format, real(f(static_cast<long double>(value_of(format, in[0])))), Round::rn);
  });
}
uint64_t flushed(uint64_t f32) { return (f32 & 0x7f800000) ? f32 : f32 & 0x80000000; }
Reference flushing(Reference f) {
  return [f](const uint64_t* in, uint64_t* out) {
    const uint64_t a = flushed(in[0]);
    f(&a, out);
    out[0] = flushed(out[0]);
  };
}
Source angles(double most) {
  const Format f = f32_format;
  Source s{special_floats(f),
           [most](Rng& rng) { return std::bit_cast<uint32_t>(float((double(rng() >> 11) * 0x1p-52 - 1) * most)); }};
  std::erase_if(s.special,
                [=](uint64_t x) { return decode(f, x).kind == Real::number && std::fabs(value_of(f, x)) > most; });
  for (double x = 0.25; x * M_PI <= most; x *= 2)
    for (double turn : {x, -x}) s.special.push_back(std::bit_cast<uint32_t>(float(turn * M_PI)));
  return s;
}
void add_approximations(Cases& c) {
  using L = long double;
  const Type t = Type::f32;
  const Source f32s = floats(t);
  // exponents that matter to ex2, reciprocals at the ends of the range
  Source exponents{f32s.special, [random = f32s.random](Rng& rng) {
                     const double x = (double(rng() >> 11) * 0x1p-52 - 1) * (rng() % 4 ? 155 : 1);
                     return rng() % 4 ? std::bit_cast<uint32_t>(float(x)) : random(rng);
                   }};
  auto one = [&](std::string name, Source source, Reference reference, Judge judge, std::string bound, auto apply) {
    c.add<float, float>({.name = name, .sources = {source}, .reference = reference, .judge = judge, .bound = bound},
                        apply);
  };
  const Reference reciprocal = exactly(t, [](L x) { return 1 / x; }),
                  power = exactly(t, [](L x) { return std::exp2(x); });
  one("rcp.approx.f32", f32s, reciprocal, within_ulps(t, 2), "1 ulp", [](Code&, F32 a) { return rcp_approx(a); });
  one("rcp.approx.ftz.f32", f32s, flushing(reciprocal), within_ulps(t, 2), "1 ulp",
      [](Code&, F32 a) { return rcp_approx_ftz(a); });
  one("ex2.approx.f32", exponents, power, within_ulps(t, 3), "2 ulp", [](Code&, F32 a) { return ex2_approx(a); });
  one("ex2.approx.ftz.f32", exponents, flushing(power), within_ulps(t, 3), "2 ulp",
      [](Code&, F32 a) { return ex2_approx_ftz(a); });
  one("sqrt.approx.f32", f32s, exactly(t, [](L x) { return std::sqrt(x); }),
      within(t, [](double y) { return 0x1p-23 * y; }), "2^-23 relative", [](Code&, F32 a) { return sqrt_approx(a); });
  one("rsqrt.approx.f32", f32s, exactly(t, [](L x) { return 1 / std::sqrt(x); }),
      within(t, [](double y) { return std::exp2(-22.9) * y; }), "2^-22.9 relative",
      [](Code&, F32 a) { return rsqrt_approx(a); });
  one("lg2.approx.f32", f32s, exactly(t, [](L x) { return std::log2(x); }),
      within(t, [](double y) { return 0x1p-22 * std::max(1.0, std::fabs(y)); }),
      "2^-22 absolute in (0.5, 2), else relative", [](Code&, F32 a) { return lg2_approx(a); });
  const Reference sine = exactly(t, [](L x) { return std::sin(x); }),
                  cosine = exactly(t, [](L x) { return std::cos(x); });
  const Judge close = within(t, [](double) { return std::exp2(-20.5); }),
              loose = within(t, [](double) { return std::exp2(-14.7); });
  one("sin.approx.f32", angles(2 * M_PI), sine, close, "2^-20.5 absolute", [](Code&, F32 a) { return sin_approx(a); });
  one("cos.approx.f32", angles(2 * M_PI), cosine, close, "2^-20.5 absolute",
      [](Code&, F32 a) { return cos_approx(a); });
  one("sin.approx.f32.to_100pi", angles(100 * M_PI), sine, loose, "2^-14.7 absolute",
      [](Code&, F32 a) { return sin_approx(a); });
  one("cos.approx.f32.to_100pi", angles(100 * M_PI), cosine, loose, "2^-14.7 absolute",
      [](Code&, F32 a) { return cos_approx(a); });
  const auto hyperbolic = [](L x) { return std::tanh(x); };
  one("tanh.approx.f32", f32s, exactly(t, hyperbolic), within(t, [](double y) { return 0x1p-11 * std::fabs(y); }),
      "2^-11 relative", [](Code&, F32 a) { return tanh_approx(a); });

  each(Halves(), [&]<class T>(std::type_identity<T>) {
    constexpr Type half = type_of<T>;
    Elementwise e{.sources = {floats(half)}};
    if constexpr (HasEx2<T>) {
      e.name = "ex2.approx." + type_name<T>(), e.reference = exactly(half, [](L x) { return std::exp2(x); });
      e.judge = within(half, [](double y) { return std::max(std::exp2(-9.9) * y, 0x1p-24); });
      e.bound = "2^-9.9 relative, 2^-24 where subnormal";
      c.add<T, T>(e, [](Code&, Val<T> a) { return ex2_approx(a); });
    }
    const bool f16s = std::same_as<T, heddle::f16> || std::same_as<T, f16x2>;
    e.name = "tanh.approx." + type_name<T>(), e.reference = exactly(half, hyperbolic);
    e.judge =
        f16s ? within(half, [](double) { return std::exp2(-10.987); }) : within(half, [](double) { return 0x1p-8; });
    e.bound = f16s ? "2^-10.987 absolute" : "2^-8 absolute";
    c.add<T, T>(e, [](Code&, Val<T> a) { return tanh_approx(a); });
  });

  // The manual bounds the error for |b| in [2^-126, 2^126]; between there and 2^128 the quotient is 0, or NaN for an
  // infinite a. It says nothing of subnormal b.
  const Format f = f32_format;
  const Source divisors = without(f32s, [](uint64_t b) { return !(b & 0x7f800000) && (b & 0x7fffffff); });
  auto quotients = [f](const uint64_t* in, uint64_t* out) {
    const Real a = decode(f, in[0]), b = decode(f, in[1]);
    const double divisor = std::fabs(value_of(f, in[1]));
    const bool beyond = divisor > 0x1p126 && divisor < 0x1p128;
    out[0] = encode(f, beyond ? product(a, Real{.negative = b.negative}) : quotient(a, b), Round::rn);
  };
  c.add<float, float, float>({.name = "div.approx.f32",
                              .sources = {f32s, divisors},
                              .reference = quotients,
                              .judge = within_ulps(t, 3),
                              .bound = "2 ulp"},
                             [](Code&, F32 a, F32 b) { return div_approx(a, b); });
}

}  // namespace

void add_arithmetic(std::vector<Case>& all) {
  Cases c{all};
  add_moves(c);
  add_constants(c);
  add_integer_sums_and_products(c);
  add_float_sums_and_products(c);
  add_integer_division(c);
  add_float_division(c);
  add_order(c);
  add_signs(c);
  add_comparisons(c);
  add_logic(c);
  add_shifts(c);
  add_bit_fields(c);
  add_bit_counts(c);
  add_permute(c);
  add_dots<uint8_t, uint8_t>(c), add_dots<uint8_t, int8_t>(c), add_dots<int8_t, uint8_t>(c),
      add_dots<int8_t, int8_t>(c);
  add_approximations(c);
}

}  // namespace heddle::ptx::cases

// Arithmetic on numbers: sums, products, quotients, roots, order, signs, comparisons and approximate functions, by type
// and rounding.
#include "tests/ptx/cases/elementwise.h"

namespace heddle::ptx::cases {

namespace {

// Integers by value: what f gives is wrapped to T.
template <class T, class F>
void add_integer(ArithmeticCases& c, const std::string& op, Source second, int128 (*f)(int128, int128), F apply) {
  constexpr Type t = type_of<T>;
  c.add<T, T, T>(
      {.name = op + "." + type_name<T>(),
       .sources = {integers(t), std::move(second)},
       .reference = [f](const uint64_t* in,
                        uint64_t* out) { out[0] = wrapped(t, f(integer_value(t, in[0]), integer_value(t, in[1]))); }},
      apply);
}

// A NaN of f64 may carry a payload; that of the other types is the one NaN.
Judge judge_of(Type t) { return t == Type::f64 ? nan_by_class(t) : Judge(); }
std::string bound_of(Type t) { return t == Type::f64 ? "exact, any NaN" : "exact"; }

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
void add_float_sums_and_products(ArithmeticCases& c) {
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
void add_integer_sums_and_products(ArithmeticCases& c) {
  each(Integers(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    add_integer<T>(
        c, "add", integers(t), [](int128 a, int128 b) { return a + b; },
        [](Code&, Val<T> a, Val<T> b) { return a + b; });
    add_integer<T>(
        c, "sub", integers(t), [](int128 a, int128 b) { return a - b; },
        [](Code&, Val<T> a, Val<T> b) { return a - b; });
    add_integer<T>(c, "mul.lo", integers(t), wrapping_product, [](Code&, Val<T> a, Val<T> b) { return a * b; });
    add_integer<T>(c, "mul.hi", integers(t), high_half<T>, [](Code&, Val<T> a, Val<T> b) { return mul_hi(a, b); });
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
void add_integer_division(ArithmeticCases& c) {
  each(Integers(), [&]<class T>(std::type_identity<T>) {
    const Source divisors = without(integers(type_of<T>), [](uint64_t v) { return v == 0; });
    add_integer<T>(
        c, "div", divisors, [](int128 a, int128 b) { return a / b; }, [](Code&, Val<T> a, Val<T> b) { return a / b; });
    add_integer<T>(
        c, "rem", divisors, [](int128 a, int128 b) { return a % b; }, [](Code&, Val<T> a, Val<T> b) { return a % b; });
  });
}
// f32 division and roots are sequences of instructions on the device, whose NaN the manual leaves open.
void add_float_division(ArithmeticCases& c) {
  each(List<float, double>(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    const Format f = format_of(t);
    for (Round r : roundings) {
      const std::string suffix = "." + spelled(r) + "." + type_name<T>();
      Elementwise e{.judge = nan_by_class(t), .bound = "exact, any NaN"};
      e.name = "div" + suffix;
      e.sources = {floats(t), floats(t)};
      e.reference = [=](const uint64_t* in, uint64_t* out) {
        out[0] = encode(f, quotient(decode(f, in[0]), decode(f, in[1])), r);
      };
      c.add<T, T, T>(e, [r](Code&, Val<T> a, Val<T> b) { return div(r, a, b); });
      e.name = "rcp" + suffix;
      e.sources = {floats(t)};
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
void add_order(ArithmeticCases& c) {
  auto extremes = [&]<class T>(std::type_identity<T>) {
    c.add<T, T, T>(extreme_case<T>("min", false), [](Code&, Val<T> a, Val<T> b) { return min(a, b); });
    c.add<T, T, T>(extreme_case<T>("max", true), [](Code&, Val<T> a, Val<T> b) { return max(a, b); });
  };
  each(Integers(), extremes);
  each(Floats(), extremes);
  for (bool greater : {false, true}) {
    Elementwise e = extreme_case<float>(greater ? "max.NaN" : "min.NaN", greater);
    e.reference = by_part(Type::f32, [greater](const Format& f, const uint64_t* in) {
      return f.is_nan(in[0]) || f.is_nan(in[1]) ? f.nan() : extreme(f, in[0], in[1], greater);
    });
    c.add<float, float, float>(e, [greater](Code&, F32 a, F32 b) { return greater ? max_nan(a, b) : min_nan(a, b); });
  }
}
void add_signs(ArithmeticCases& c) {
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
void add_comparisons(ArithmeticCases& c) {
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
Source angles(double limit) {
  const Format f = f32_format;
  Source s{special_floats(f),
           [limit](Rng& rng) { return std::bit_cast<uint32_t>(float((double(rng() >> 11) * 0x1p-52 - 1) * limit)); }};
  std::erase_if(s.special,
                [=](uint64_t x) { return decode(f, x).kind == Real::number && std::fabs(value_of(f, x)) > limit; });
  for (double x = 0.25; x * M_PI <= limit; x *= 2)
    for (double turn : {x, -x}) s.special.push_back(std::bit_cast<uint32_t>(float(turn * M_PI)));
  return s;
}
void add_approximations(ArithmeticCases& c) {
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
      e.name = "ex2.approx." + type_name<T>();
      e.reference = exactly(half, [](L x) { return std::exp2(x); });
      e.judge = within(half, [](double y) { return std::max(std::exp2(-9.9) * y, 0x1p-24); });
      e.bound = "2^-9.9 relative, 2^-24 where subnormal";
      c.add<T, T>(e, [](Code&, Val<T> a) { return ex2_approx(a); });
    }
    const bool f16s = std::same_as<T, heddle::f16> || std::same_as<T, f16x2>;
    e.name = "tanh.approx." + type_name<T>();
    e.reference = exactly(half, hyperbolic);
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
  ArithmeticCases c{all};
  add_integer_sums_and_products(c);
  add_float_sums_and_products(c);
  add_integer_division(c);
  add_float_division(c);
  add_order(c);
  add_signs(c);
  add_comparisons(c);
  add_approximations(c);
}

}  // namespace heddle::ptx::cases

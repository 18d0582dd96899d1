// Every conversion the builder offers, by types and rounding.
#include "tests/ptx/cases/elementwise.h"

namespace heddle::ptx::cases {
namespace {

struct ConversionCases {
  std::vector<Case>& all;

  template <class R, class... A, class F>
  void add(Elementwise e, F apply, uint32_t results = 1) {
    e.family = "conversion";
    all.push_back(elementwise<R, A...>(std::move(e), apply, results));
  }
};

// --- operands near where a conversion has to decide
// ------------------------------------------------------------------- Numbers of type `from` at, between and beside
// those of `to`, besides any others.
Source between_floats(Type from, Type to) {
  const Format wide = format_of(from), narrow = format_of(to);
  Source s = floats(from);
  auto translated = [=](uint64_t code) { return encode(wide, decode(narrow, code), Round::rn); };
  const uint64_t half = uint64_t(1) << (wide.fraction_bits - narrow.fraction_bits - 1);  // of a unit of `to`
  for (uint64_t code : special_floats(narrow))
    for (uint64_t step : {uint64_t(0), half, half - 1, half + 1, uint64_t(0) - half, uint64_t(1)})
      s.special.push_back((translated(code) + step) & (2 * wide.sign() - 1));
  s.random = [=, any_float = s.random](Rng& rng) {
    if (rng() % 4 == 0) return any_float(rng);
    const uint64_t code = translated(random_float(narrow, rng));
    // in the subnormals of `to` a tie can be at any bit
    const uint64_t at = rng() % 2 ? half : uint64_t(1) << rng() % uint64_t(wide.fraction_bits);
    return (code + at + std::array<uint64_t, 4>{0, 1, ~uint64_t(0), rng() % (2 * half)}[rng() % 4]) &
           (2 * wide.sign() - 1);
  };
  return s;
}
// Both halves of a register from two such sources is what a pair of f32 is; here one register holds both.
Source pairs_of(Source one, int bits) {
  Source s;
  for (size_t i = 0; i < one.special.size(); ++i)
    s.special.push_back(one.special[(5 * i + 3) % one.special.size()] << bits | one.special[i]);
  s.random = [random = one.random, bits](Rng& rng) { return random(rng) << bits | random(rng); };
  return s;
}
// Whole numbers of `to`, its limits above all, and a quarter, a half, three quarters beside them.
Source near_integers(Type from, Type to) {
  const Format f = format_of(from);
  Source s = floats(from);
  auto quarters = [f](int128 v) {
    return encode(f, Real{.negative = v < 0, .significand = uint128(v < 0 ? -v : v), .exponent = -2}, Round::rz);
  };
  for (int128 v : {int128(0), int128(1), int128(2), lowest(to), highest(to), highest(to) + 1, int128(65504)})
    for (int step : {-6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6}) s.special.push_back(quarters(4 * v + step));
  s.random = [=, any_float = s.random](Rng& rng) {
    if (rng() % 4 == 0) return any_float(rng);
    return quarters(4 * (rng() % 2 ? integer_value(to, random_integer(to, rng)) : int128(rng() % 4096) - 2048) +
                    int128(rng() % 4));
  };
  return s;
}
// Integers around the numbers of `to`, where they are further than 1 apart.
Source near_floats(Type from, Type to) {
  const Format f = format_of(to);
  Source s = integers(from);
  for (int128 v :
       {int128(65504), int128(65519), int128(65520), int128(65521), int128(65536), int128(2049), int128(2051)}) {
    s.special.push_back(wrapped(from, v));
    s.special.push_back(wrapped(from, -v));
  }
  s.random = [from, bits = f.fraction_bits + 1, any_integer = s.random](Rng& rng) {
    if (rng() % 2) return any_integer(rng);
    const uint64_t kept = rng() >> (64 - bits), dropped = rng() % uint64_t(std::max(1, 64 - bits));
    const int128 v = (int128(kept) << dropped) + (int128(1) << dropped >> 1) + int128(rng() % 3) - 1;
    return wrapped(from, rng() % 2 ? v : -v);
  };
  return s;
}

// --- what a conversion gives
// ------------------------------------------------------------------------------------------
Reference between_integers(Type to, Type from, bool saturate) {
  return [=](const uint64_t* in, uint64_t* out) {
    const int128 v = integer_value(from, in[0]);
    out[0] = wrapped(to, saturate ? std::min(std::max(v, lowest(to)), highest(to)) : v);
  };
}
Reference integer_to_float(Type to, Type from, Round r) {
  return [=](const uint64_t* in, uint64_t* out) {
    out[0] = encode(format_of(to), integer(integer_value(from, in[0])), r);
  };
}
// Clamped; NaN is 0, or the top bit alone where 64 bits are involved.
Reference float_to_integer(Type to, Type from, Round r) {
  return [=](const uint64_t* in, uint64_t* out) {
    const Real x = decode(format_of(from), in[0]);
    const bool wide = size_of(to) == 8 || from == Type::f64;
    if (x.kind == Real::nan) {
      out[0] = wide ? uint64_t(1) << (8 * size_of(to) - 1) : 0;
      return;
    }
    const int128 magnitude = x.kind == Real::infinite || x.exponent > 64 ? int128(1) << 100 : int128(round_to(x, 0, r));
    out[0] = wrapped(to, std::min(std::max(x.negative ? -magnitude : magnitude, lowest(to)), highest(to)));
  };
}
Reference float_to_float(Type to, Type from, Round r) {
  return [=](const uint64_t* in, uint64_t* out) { out[0] = encode(format_of(to), decode(format_of(from), in[0]), r); };
}
Reference float_to_whole(Type t, Round r) {
  return [=](const uint64_t* in, uint64_t* out) {
    Real x = decode(format_of(t), in[0]);
    if (x.kind == Real::number && x.exponent < 0) {
      x.significand = round_to(x, 0, r);
      x.exponent = 0;
    }  // 0 keeps the sign
    out[0] = encode(format_of(t), x, Round::rn);
  };
}

// --- integers -------------------------------------------------------------------------------------------------------
void add_between_integers(ConversionCases& c) {
  each(Integers(), [&]<class To>(std::type_identity<To>) {
    each(Integers(), [&]<class From>(std::type_identity<From>) {
      constexpr Type to = type_of<To>, from = type_of<From>;
      const std::string suffix = type_name<To>() + "." + type_name<From>();
      c.add<To, From>(
          {.name = "cvt." + suffix, .sources = {integers(from)}, .reference = between_integers(to, from, false)},
          [](Code&, Val<From> a) { return ptx::to<To>(a); });
      if (lowest(from) >= lowest(to) && highest(from) <= highest(to))
        return;  // PTX refuses .sat where nothing can be clamped
      c.add<To, From>(
          {.name = "cvt.sat." + suffix, .sources = {integers(from)}, .reference = between_integers(to, from, true)},
          [](Code&, Val<From> a) { return to_saturated<To>(a); });
    });
  });
}
void add_integers_and_floats(ConversionCases& c) {
  each(Integers(), [&]<class I>(std::type_identity<I>) {
    each(List<heddle::f16, float, double>(), [&]<class F>(std::type_identity<F>) {
      constexpr Type i = type_of<I>, f = type_of<F>;
      for (Round r : roundings)
        c.add<F, I>({.name = "cvt." + spelled(r) + "." + type_name<F>() + "." + type_name<I>(),
                     .sources = {near_floats(i, f)},
                     .reference = integer_to_float(f, i, r)},
                    [r](Code&, Val<I> a) { return to<F>(a, r); });
      for (Round r : whole_roundings)
        c.add<I, F>({.name = "cvt." + spelled(r) + "." + type_name<I>() + "." + type_name<F>(),
                     .sources = {near_integers(f, i)},
                     .reference = float_to_integer(i, f, r)},
                    [r](Code&, Val<F> a) { return to<I>(a, r); });
    });
  });
}

// --- floats ---------------------------------------------------------------------------------------------------------
// From one format to another, exactly or with a rounding.
template <class To, class From, class F>
void float_case(ConversionCases& c, Round r, F apply, Judge judge = {}, std::string bound = "exact") {
  constexpr Type to = type_of<To>, from = type_of<From>;
  const bool narrows = size_of(to) < size_of(from);
  Elementwise e{.name = "cvt." + (r == Round::none ? "" : spelled(r) + ".") + type_name<To>() + "." + type_name<From>(),
                .sources = {narrows ? between_floats(from, to) : floats(from)},
                .judge = judge,
                .bound = bound};
  e.reference = float_to_float(to, from, r);
  c.add<To, From>(e, apply);
}
void add_between_floats(ConversionCases& c) {
  const std::string any_nan = "exact, any NaN";
  float_case<float, heddle::f16>(c, Round::none, [](Code&, F16 a) { return to_f32(a); });
  float_case<float, heddle::bf16>(
      c, Round::none, [](Code&, BF16 a) { return to_f32(a); }, nan_by_class(Type::f32), any_nan);
  float_case<double, float>(
      c, Round::none, [](Code&, F32 a) { return to_f64(a); }, nan_by_class(Type::f64), any_nan);
  float_case<double, heddle::f16>(
      c, Round::none, [](Code&, F16 a) { return to_f64(a); }, nan_by_class(Type::f64), any_nan);
  for (Round r : roundings) {
    // a GPU keeps the upper bits of an f64 NaN's payload
    float_case<float, double>(
        c, r, [r](Code&, F64 a) { return to_f32(a, r); }, nan_by_class(Type::f32), any_nan);
    float_case<heddle::f16, float>(c, r, [r](Code&, F32 a) { return to_f16(a, r); });
    float_case<heddle::f16, double>(
        c, r, [r](Code&, F64 a) { return to_f16(a, r); }, nan_by_class(Type::f16), any_nan);
  }
  for (Round r : {Round::rn, Round::rz})
    float_case<heddle::bf16, float>(c, r, [r](Code&, F32 a) { return to_bf16(a, r); });
}
void add_whole(ConversionCases& c) {
  each(List<float, double>(), [&]<class T>(std::type_identity<T>) {
    constexpr Type t = type_of<T>;
    for (Round r : whole_roundings)
      c.add<T, T>({.name = "cvt." + spelled(r) + "." + type_name<T>() + "." + type_name<T>(),
                   .sources = {near_integers(t, Type::s64)},
                   .reference = float_to_whole(t, r),
                   .judge = nan_by_class(t),
                   .bound = "exact, any NaN"},
                  [r](Code&, Val<T> a) { return round_to_whole(a, r); });
  });
}
// tf32 is the upper 19 bits of a word; what the lower 13 hold, the manual does not say. A NaN is cut, not rounded: one
// whose payload lies in the lower bits becomes an infinity.
void add_tf32(ConversionCases& c) {
  auto upper = [](uint64_t got, uint64_t want) -> std::string {
    const bool both_nan = tf32_format.is_nan(got >> 13) && tf32_format.is_nan(want >> 13);
    return got >> 13 == want >> 13 || both_nan ? "" : differ(got, want);
  };
  Source values = floats(Type::f32);
  for (uint64_t code : special_floats(tf32_format))
    for (uint64_t low : {0x1000, 0x0fff, 0x1001, 0x1fff}) values.special.push_back(code << 13 | low);
  c.add<tf32, float>({.name = "cvt.rna.tf32.f32",
                      .sources = {values},
                      .reference =
                          [](const uint64_t* in, uint64_t* out) {
                            out[0] = f32_format.is_nan(in[0])
                                         ? in[0] >> 13 << 13
                                         : encode(tf32_format, decode(f32_format, in[0]), Round::rna) << 13;
                          },
                      .judge = upper,
                      .bound = "upper 19 bits exact, any NaN"},
                     [](Code&, F32 a) { return to_tf32(a); });
}

// --- pairs ----------------------------------------------------------------------------------------------------------
template <class R, class F>
void pair_case(ConversionCases& c, bool saturate, F apply) {
  const Format f = format_of(type_of<R>);
  const Source half = between_floats(Type::f32, type_of<R>);
  Source other = half;
  if (other.special.size() > 32) other.special.resize(32);  // the cross product stays small
  auto reference = [f, saturate](const uint64_t* in, uint64_t* out) {
    for (int i = 0; i < 2; ++i) out[0] |= encode(f, decode(f32_format, in[i]), Round::rn, saturate) << i * f.bits();
  };
  c.add<R, float, float>({.name = std::string("cvt.rn.") + (saturate ? "satfinite." : "") + type_name<R>() + ".f32",
                          .sources = {half, other},
                          .reference = reference},
                         [apply](Code&, F32 lo, F32 hi) { return apply(lo, hi); });
}
template <class Fp8, class F, class G>
void fp8_cases(ConversionCases& c, F narrow, G widen) {
  const Format f = format_of(type_of<Fp8>);
  auto both = [](uint64_t x, int from, int to, auto convert) {
    const uint64_t mask = (uint64_t(1) << from) - 1;
    return convert(x >> from & mask) << to | convert(x & mask);
  };
  c.add<Fp8, f16x2>({.name = "cvt.rn.satfinite." + type_name<Fp8>() + ".f16x2",
                     .sources = {pairs_of(between_floats(Type::f16, type_of<Fp8>), 16)},
                     .reference =
                         [f, both](const uint64_t* in, uint64_t* out) {
                           out[0] = both(in[0], 16, 8,
                                         [&](uint64_t x) { return encode(f, decode(f16_format, x), Round::rn, true); });
                         }},
                    [narrow](Code&, F16x2 a) { return narrow(a); });
  Source codes{{}, [](Rng& rng) { return rng() & 0xffff; }};
  for (uint64_t i = 0; i < 256; ++i) codes.special.push_back((i * 37 + 11) % 256 << 8 | i);
  c.add<f16x2, Fp8>({.name = "cvt.rn.f16x2." + type_name<Fp8>(),
                     .sources = {codes},
                     .reference =
                         [f, both](const uint64_t* in, uint64_t* out) {
                           out[0] = both(in[0], 8, 16,
                                         [&](uint64_t x) { return encode(f16_format, decode(f, x), Round::rn); });
                         }},
                    [widen](Code&, Val<Fp8> a) { return widen(a); });
}
void add_conversions_of_pairs(ConversionCases& c) {
  pair_case<f16x2>(c, false, [](F32 lo, F32 hi) { return to_f16x2(lo, hi); });
  pair_case<bf16x2>(c, false, [](F32 lo, F32 hi) { return to_bf16x2(lo, hi); });
  pair_case<e4m3x2>(c, true, [](F32 lo, F32 hi) { return to_e4m3x2(lo, hi); });
  pair_case<e5m2x2>(c, true, [](F32 lo, F32 hi) { return to_e5m2x2(lo, hi); });
  fp8_cases<e4m3x2>(
      c, [](F16x2 a) { return to_e4m3x2(a); }, [](E4M3x2 a) { return to_f16x2(a); });
  fp8_cases<e5m2x2>(
      c, [](F16x2 a) { return to_e5m2x2(a); }, [](E5M2x2 a) { return to_f16x2(a); });
}

// --- bits -----------------------------------------------------------------------------------------------------------
template <class... Ts>
void add_bitcasts(ConversionCases& c, List<Ts...> types) {
  each(types, [&]<class To>(std::type_identity<To>) {
    each(types, [&]<class From>(std::type_identity<From>) {
      if constexpr (!std::same_as<To, From>)
        c.add<To, From>({.name = "bitcast." + type_name<To>() + "." + type_name<From>(),
                         .sources = {bits_of(type_of<From>)},
                         .reference = [](const uint64_t* in, uint64_t* out) { out[0] = in[0]; }},
                        [](Code&, Val<From> a) { return bitcast<To>(a); });
    });
  });
}
template <class Whole, class Half>
void add_halves(ConversionCases& c) {
  constexpr int bits = 8 * sizeof(Half);
  const std::string suffix = type_name<Whole>() + "." + type_name<Half>();
  const Source part = bits_of(type_of<Half>);
  c.add<Whole, Half, Half>({.name = "pack." + suffix,
                            .sources = {part, part},
                            .reference = [](const uint64_t* in, uint64_t* out) { out[0] = in[0] + (in[1] << bits); }},
                           [](Code&, Val<Half> lo, Val<Half> hi) { return pack<Whole>(lo, hi); });
  c.add<Half, Whole>(
      {.name = "unpack." + suffix,
       .sources = {bits_of(type_of<Whole>)},
       .reference =
           [](const uint64_t* in, uint64_t* out) {
             out[0] = in[0] % (uint64_t(1) << bits);
             out[1] = in[0] / (uint64_t(1) << bits);
           }},
      [](Code&, Val<Whole> a) { return unpack<Half>(a); }, 2);
}

}  // namespace

void add_conversions(std::vector<Case>& all) {
  ConversionCases c{all};
  add_between_integers(c);
  add_integers_and_floats(c);
  add_between_floats(c);
  add_whole(c);
  add_tf32(c);
  add_conversions_of_pairs(c);
  add_bitcasts(c, List<uint16_t, int16_t, heddle::f16, heddle::bf16, e4m3x2, e5m2x2>());
  add_bitcasts(c, List<uint32_t, int32_t, float, f16x2, bf16x2, tf32>());
  add_bitcasts(c, List<uint64_t, int64_t, double>());
  add_halves<uint32_t, uint16_t>(c);
  add_halves<int32_t, int16_t>(c);
  add_halves<f16x2, heddle::f16>(c);
  add_halves<bf16x2, heddle::bf16>(c);
  add_halves<uint32_t, e4m3x2>(c);
  add_halves<uint32_t, e5m2x2>(c);
  add_halves<uint32_t, heddle::f16>(c);
  add_halves<uint32_t, heddle::bf16>(c);
  add_halves<float, uint16_t>(c);
  add_halves<uint64_t, uint32_t>(c);
  add_halves<int64_t, int32_t>(c);
  add_halves<double, uint32_t>(c);
  add_halves<uint64_t, float>(c);
  add_halves<uint64_t, f16x2>(c);
  add_halves<uint64_t, bf16x2>(c);
}

}  // namespace heddle::ptx::cases

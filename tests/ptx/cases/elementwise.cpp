#include "tests/ptx/cases/elementwise.h"

#include <cstring>

namespace heddle::ptx::cases {

std::vector<uint64_t> special_floats(const Format& f) {
  const uint64_t one = uint64_t(f.bias()) << f.fraction_bits, normal = uint64_t(1) << f.fraction_bits;
  std::vector<uint64_t> v;
  for (uint64_t magnitude :
       {uint64_t(0), uint64_t(1), normal - 1, normal,  // smallest and largest subnormal, smallest normal
        one, one + 1, one - 1, one + normal / 2, one + normal, one - normal,  // 1, its neighbours, 1.5, 2, 0.5
        f.largest(), f.infinities ? f.infinity() : f.largest()}) {
    v.push_back(magnitude);
    v.push_back(magnitude | f.sign());
  }
  if (f.infinities) v.push_back(f.infinity() | normal / 2 | 1);                  // a quiet NaN with a payload
  v.push_back(f.infinities ? f.sign() | f.infinity() | 1 : f.sign() | f.nan());  // a signalling one
  return v;
}
uint64_t random_float(const Format& f, Rng& rng) {
  const uint64_t bits = rng(), fraction_mask = (uint64_t(1) << f.fraction_bits) - 1;
  const uint64_t choice = rng() % 8;
  if (choice == 0) return bits & (f.sign() * 2 - 1);
  uint64_t fraction = bits & fraction_mask, field = uint64_t(f.bias() - 4 + int(bits >> 56 & 7));
  if (choice >= 5) {
    const uint64_t length = bits >> 52 & 63, tail = uint64_t(1) << length % uint64_t(f.fraction_bits);
    fraction =
        (((fraction & ~(2 * tail - 1)) | tail) + std::array<uint64_t, 4>{0, 0, 1, ~uint64_t(0)}[bits >> 50 & 3]) &
        fraction_mask;
  }
  const uint64_t fields = (uint64_t(1) << f.exponent_bits) - 1;
  if (choice == 3) field = (bits >> 56) % std::min<uint64_t>(uint64_t(f.fraction_bits) + 3, fields);
  if (choice == 4) field = fields - 1 - (bits >> 56 & 3);
  return (rng() & 1 ? f.sign() : 0) | field << f.fraction_bits | fraction;
}
static std::vector<uint64_t> special_integers(Type t) {
  std::vector<uint64_t> v;
  const int width = int(8 * size_of(t));
  for (int128 x : {int128(0), int128(1), int128(2), int128(3), int128(7), int128(10), int128(255), int128(256)}) {
    v.push_back(wrapped(t, x));
    v.push_back(wrapped(t, -x));
  }
  for (int shift : {width / 2 - 1, width / 2, width - 2, width - 1})
    for (int off : {-1, 0, 1}) v.push_back(wrapped(t, (int128(1) << shift) + off));
  v.push_back(wrapped(t, int128(0x5555555555555555)));
  return v;
}
uint64_t random_integer(Type t, Rng& rng) {
  const uint64_t bits = rng(), choice = rng() % 4;
  if (choice < 2) return wrapped(t, int128(bits));
  const int128 magnitude =
      choice == 2 ? int128(bits & 0xfff) : (int128(1) << bits % (8 * size_of(t))) + int128(bits >> 60) - 8;
  return wrapped(t, bits >> 32 & 1 ? magnitude : -magnitude);
}

Source integers(Type t) {
  return {special_integers(t), [t](Rng& rng) { return random_integer(t, rng); }};
}
Source floats(Type t) {
  const Format f = format_of(t);
  if (size_of(t) * 8 == uint32_t(f.bits())) return {special_floats(f), [f](Rng& rng) { return random_float(f, rng); }};
  // a pair: each half takes its turn at every special value, beside another one
  std::vector<uint64_t> one = special_floats(f), pairs;
  for (size_t i = 0; i < one.size(); ++i) pairs.push_back(one[(5 * i + 3) % one.size()] << f.bits() | one[i]);
  return {pairs, [f](Rng& rng) { return random_float(f, rng) << f.bits() | random_float(f, rng); }};
}
Source any(Type t) {
  if (t == Type::pred) return {{0, 1}, [](Rng& rng) { return rng() & 1; }};
  return is_integer(t) ? integers(t) : floats(t);
}
Source bits_of(Type t) {
  return {special_integers(size_of(t) == 2   ? Type::u16
                           : size_of(t) == 4 ? Type::u32
                                             : Type::u64),
          [t](Rng& rng) { return rng() & (size_of(t) == 8 ? ~uint64_t(0) : (uint64_t(1) << 8 * size_of(t)) - 1); }};
}
// Around 0, the width, and where only the low bits may count.
Source amounts(uint32_t width) {
  std::vector<uint64_t> v{0,         1,   2,   width / 2, width - 2, width - 1, width,     width + 1,
                          2 * width, 254, 255, 256,       257,       0x10001,   0xffffffff};
  return {v, [width](Rng& rng) { return rng() % (width + 8); }};
}
Source without(Source s, Callable<bool(uint64_t)> reject) {
  std::erase_if(s.special, reject);
  s.random = [random = s.random, reject](Rng& rng) {
    for (;;)
      if (const uint64_t v = random(rng); !reject(v)) return v;
  };
  return s;
}

std::string differ(uint64_t got, uint64_t want) { return fmt::format("got {:#x}, want {:#x}", got, want); }
Judge nan_by_class(Type t) {
  return [f = format_of(t), pairs = is_packed(t)](uint64_t got, uint64_t want) -> std::string {
    const uint64_t one = f.bits() == 64 ? ~uint64_t(0) : 2 * f.sign() - 1;
    for (int i = 0; i <= pairs; ++i) {
      const uint64_t g = got >> f.bits() % 64 * i & one, w = want >> f.bits() % 64 * i & one;
      if (g != w && !(f.is_nan(g) && f.is_nan(w))) return differ(got, want);
    }
    return {};
  };
}
Judge within_ulps(Type t, int64_t max_ulps) {
  return [f = format_of(t), max_ulps](uint64_t got, uint64_t want) -> std::string {
    if (f.is_nan(got) || f.is_nan(want)) return f.is_nan(got) && f.is_nan(want) ? "" : differ(got, want);
    auto place = [&](uint64_t x) { return x & f.sign() ? -int64_t(x ^ f.sign()) : int64_t(x); };
    if (!place(got) && !place(want)) return got == want ? "" : differ(got, want);  // zeros keep their sign
    const int64_t apart = place(got) - place(want);
    return apart > max_ulps || apart < -max_ulps ? differ(got, want) : "";
  };
}
Judge within(Type t, double (*tolerance)(double)) {
  return [f = format_of(t), pairs = is_packed(t), tolerance](uint64_t got, uint64_t want) -> std::string {
    for (int i = 0; i <= pairs; ++i) {
      const uint64_t one = 2 * f.sign() - 1, g = got >> f.bits() * i & one, w = want >> f.bits() * i & one;
      if (g == w || (f.is_nan(g) && f.is_nan(w))) continue;
      const double x = value_of(f, g), y = value_of(f, w);
      if (x == 0 && y == 0) return differ(got, want);
      const double half_ulp = std::ldexp(0.5, decode(f, w).exponent);
      if (!(std::fabs(x - y) <= tolerance(y) + half_ulp)) return differ(got, want);
    }
    return {};
  };
}

namespace {

constexpr uint32_t random_items = 10'000;

size_t special_items(const Elementwise& e) {
  size_t n = 1;
  for (auto& s : e.sources) n *= s.special.size();
  return n;
}
void fill_operands(const Elementwise& e, Rng& rng, size_t index, uint64_t* in) {
  if (index < special_items(e)) {
    for (size_t i = 0; i < e.sources.size(); ++i) {
      auto& values = e.sources[i].special;
      in[i] = values[index % values.size()];
      index /= values.size();
    }
    return;
  }
  for (size_t i = 0; i < e.sources.size(); ++i) in[i] = e.sources[i].random(rng);
  if (e.relate && rng() % 4 == 0) e.relate(rng, in);
}

// A predicate is a word in memory.
Type stored(Type t) { return t == Type::pred ? Type::u32 : t; }

Operand load_operand(Place& p, Type t, uint32_t slot) {  // operands lie 8 bytes apart
  const Operand v = p.k.reg(stored(t));
  p.k.append({.op = Op::load,
              .type = stored(t),
              .dst = {v},
              .src = {p.in.base.op},
              .offset = 8 * slot,
              .space = Space::global},
             Loc::current());
  return t == Type::pred ? (U32{&p.k, v} != 0u).op : v;
}
void store_result(Place& p, Type t, uint32_t slot, Operand v) {
  if (t == Type::pred) v = as_word(p.k, Pred{&p.k, v}).op;
  p.k.append({.op = Op::store,
              .type = stored(t),
              .src = {p.out.base.op, v},
              .offset = slot * size_of(stored(t)),
              .space = Space::global},
             Loc::current());
}

}  // namespace

Case elementwise_case(Elementwise e, std::vector<Type> operands, Type result, uint32_t results, Apply apply) {
  const uint32_t size = size_of(stored(result));
  Threads t{.name = e.name,
            .family = e.family,
            .in_bytes = 8 * uint32_t(operands.size()),
            .out_bytes = size * results,
            .body = {},
            .reference = {}};
  t.body = [operands, result, apply](Place& p) {
    std::vector<Operand> in;
    for (Type type : operands) in.push_back(load_operand(p, type, uint32_t(in.size())));
    uint32_t slot = 0;
    for (const Operand& v : apply(p.k, in)) store_result(p, result, slot++, v);
  };
  t.fill = [e](Rng& rng, size_t index, uint8_t* in) {
    uint64_t values[4] = {};
    fill_operands(e, rng, index, values);
    std::memcpy(in, values, 8 * e.sources.size());
  };
  t.reference = [e, results, size](const uint8_t* in, uint8_t* out) {
    uint64_t values[4] = {}, made[2] = {};
    std::memcpy(values, in, 8 * e.sources.size());
    e.reference(values, made);
    for (uint32_t i = 0; i < results; ++i) std::memcpy(out + i * size, &made[i], size);
  };
  Case c = make_case(std::move(t));
  c.fewest_items = uint32_t(special_items(e)) + random_items;
  c.bound = e.bound;
  c.result = result;
  c.compare = [judge = e.judge, results, size, n = e.sources.size()](const uint8_t* in, const uint8_t* got,
                                                                     const uint8_t* want) {
    for (uint32_t i = 0; i < results; ++i) {
      uint64_t g = 0, w = 0, operand[4] = {};
      std::memcpy(&g, got + i * size, size);
      std::memcpy(&w, want + i * size, size);
      std::string why = judge ? judge(g, w) : g == w ? "" : differ(g, w);
      if (why.empty()) continue;
      std::memcpy(operand, in, 8 * n);
      for (size_t k = 0; k < n; ++k) why += fmt::format("{} {:#x}", k ? "," : " from", operand[k]);
      return why;
    }
    return std::string();
  };
  return c;
}

}  // namespace heddle::ptx::cases

#include "tests/ptx/cases/product.h"

#include <cmath>

#include "base/error.h"

namespace heddle::ptx::cases {
namespace {

double read_number(Type t, const uint8_t* at) {
  const auto as = [&](auto x) {
    std::memcpy(&x, at, sizeof x);
    return x;
  };
  switch (t) {
    case Type::f16:
      return heddle::to_f32(as(heddle::f16{}));
    case Type::bf16:
      return heddle::to_f32(as(heddle::bf16{}));
    case Type::e4m3:
      return heddle::to_f32(as(heddle::e4m3{}));
    case Type::e5m2:
      return heddle::to_f32(as(heddle::e5m2{}));
    case Type::tf32:
      return std::bit_cast<float>(as(uint32_t{}) & 0xffffe000u);
    case Type::f32:
      return as(float{});
    case Type::s8:
      return as(int8_t{});
    case Type::u8:
      return as(uint8_t{});
    case Type::s32:
      return as(int32_t{});
    default:
      return std::nan("");
  }
}
void write_number(Type t, double v, uint8_t* at) {
  const auto put = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (t) {
    case Type::f16:
      return put(heddle::to_f16(v));
    case Type::bf16:
      return put(heddle::to_bf16(v));
    case Type::e4m3:
      return put(heddle::to_e4m3(v));
    case Type::e5m2:
      return put(heddle::to_e5m2(v));
    case Type::tf32:
    case Type::f32:
      return put(float(v));
    case Type::s8:
    case Type::u8:
      return put(uint8_t(int64_t(v)));
    case Type::s32:
      return put(uint32_t(int64_t(v)));
    default:
      check(false, "not a type of a matrix");
  }
}

// Even items hold small integers: whatever the order and width of the sums, the result is exact and a misplaced
// element shows. Odd ones hold random numbers of many magnitudes.
void fill_floats(const Product& p, Rng& rng, size_t index, uint8_t* in) {
  const auto number = [&](int whole) -> double {
    if (index % 2 == 0) return double(int64_t(rng() % uint64_t(2 * whole + 1)) - whole);
    return std::ldexp(double(int64_t(rng() % 2001) - 1000) / 1000, int(rng() % 7) - 3);
  };
  for (uint32_t i = 0; i < p.m * p.k; ++i) write_number(p.a, number(4), in + i * size_of(p.a));
  for (uint32_t i = 0; i < p.k * p.n; ++i) write_number(p.b, number(4), in + p.b_at() + i * size_of(p.b));
  for (uint32_t i = 0; i < p.m * p.n; ++i) write_number(p.sum, number(64), in + p.c_at() + i * size_of(p.sum));
  if (p.a == Type::tf32)  // the low bits do not count
    for (uint32_t i = 0; i < (p.a_bytes() + p.b_bytes()) / 4; ++i) {
      uint32_t word;
      std::memcpy(&word, in + i * 4, 4);
      word = (word & ~0x1fffu) | uint32_t(rng() & 0x1fff);
      std::memcpy(in + i * 4, &word, 4);
    }
}
void fill_integers(const Product& p, Rng& rng, size_t index, uint8_t* in) {
  const auto extreme = [&] { return uint8_t(rng() % 2 ? 0x80 : rng() % 2 ? 0x7f : 0xff); };
  for (uint32_t i = 0; i < p.c_at(); ++i) in[i] = index % 4 == 0 ? extreme() : uint8_t(rng());
  for (uint32_t i = p.c_at(); i < p.flag_at(); ++i) in[i] = uint8_t(rng());  // most sums wrap for some
}

void triple_loop(const Product& p, const uint8_t* in, uint8_t* out) {
  for (uint32_t row = 0; row < p.m; ++row)
    for (uint32_t col = 0; col < p.n; ++col) {
      double sum = p.c_of(in, row, col);
      for (uint32_t i = 0; i < p.k; ++i) sum += p.a_of(in, row, i) * p.b_of(in, i, col);
      write_number(p.sum, sum, out + (row * p.n + col) * size_of(p.sum));
    }
}

// The bound at the top of src/ptx/machine/matrix.cpp.
struct Bound {
  double per_term = 0, at_end = 0;  // relative to S = |c| + sum of |a||b|; the first k + steps times
  std::string words;
};
Bound product_bound(const Product& p) {
  if (p.sum == Type::s32) return {0, 0, "exact"};
  const bool fp8 = size_of(p.a) == 1, half = p.sum == Type::f16;
  return {fp8 ? 0x1p-13 : 0x1p-23, half ? p.steps * 0x1p-10 : 0,
          std::string("integers exact; else (k + 1) ") + (fp8 ? "2^-13" : "2^-23") + (half ? " + 2^-10" : "") +
              " of sum |a||b|"};
}

std::string compare_products(const Product& p, const uint8_t* in, const uint8_t* got, const uint8_t* want) {
  const Bound bound = product_bound(p);
  for (uint32_t row = 0; row < p.m; ++row)
    for (uint32_t col = 0; col < p.n; ++col) {
      const uint32_t at = (row * p.n + col) * size_of(p.sum);
      if (!std::memcmp(got + at, want + at, size_of(p.sum))) continue;
      double size = std::abs(p.c_of(in, row, col));
      bool whole = p.sum == Type::s32 || size == std::floor(size);
      for (uint32_t i = 0; i < p.k; ++i) {
        const double a = p.a_of(in, row, i), b = p.b_of(in, i, col);
        size += std::abs(a * b);
        whole = whole && a == std::floor(a) && b == std::floor(b);
      }
      const double x = read_number(p.sum, got + at), y = read_number(p.sum, want + at);
      const double allowed = whole ? 0 : size * ((p.k + p.steps) * bound.per_term + bound.at_end);
      if (!(std::abs(x - y) <= allowed))
        return fmt::format("row {}, column {}: got {}, expected {}, at most {} apart", row, col, x, y, allowed);
    }
  return "";
}

}  // namespace

double Product::a_of(const uint8_t* in, uint32_t row, uint32_t i) const {
  const double v = read_number(a, in + (a_k_first ? row * k + i : i * m + row) * size_of(a));
  return negate_a ? -v : v;
}
double Product::b_of(const uint8_t* in, uint32_t i, uint32_t col) const {
  const double v = read_number(b, in + b_at() + (b_k_first ? col * k + i : i * n + col) * size_of(b));
  return negate_b ? -v : v;
}
double Product::c_of(const uint8_t* in, uint32_t row, uint32_t col) const {
  uint32_t flag;
  std::memcpy(&flag, in + flag_at(), 4);
  return read_flag && !flag ? 0 : read_number(sum, in + c_at() + (row * n + col) * size_of(sum));
}

Case product_case(std::string name, const Product& p, Callable<Kernel()> build) {
  Case c;
  c.name = std::move(name);
  c.family = "matrix";
  c.build = std::move(build);
  c.in_bytes = p.in_bytes();
  c.out_bytes = p.c_bytes();
  c.result = p.sum;
  c.items_per_block = 1;
  c.fill = [p](Rng& rng, size_t index, uint8_t* in) {
    if (p.sum == Type::s32)
      fill_integers(p, rng, index, in);
    else
      fill_floats(p, rng, index, in);
    std::memset(in + p.flag_at(), 0, 16);
    in[p.flag_at()] = uint8_t(index / 2 % 2);
  };
  c.reference = [p](const uint8_t* in, uint8_t* out) { triple_loop(p, in, out); };
  if (p.sum != Type::s32)
    c.compare = [p](const uint8_t* in, const uint8_t* got, const uint8_t* want) {
      return compare_products(p, in, got, want);
    };
  c.bound = product_bound(p).words;
  c.fewest_items = 200;
  return c;
}

}  // namespace heddle::ptx::cases

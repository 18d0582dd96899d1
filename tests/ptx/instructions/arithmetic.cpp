// Probes of arithmetic: every operator and function on every type, rounding and comparison.
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx::instructions {
namespace {

using heddle::bf16;
using heddle::f16;

constexpr Round roundings[] = {Round::rn, Round::rz, Round::rm, Round::rp};

void integers(Probes& all) {
  types<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>([&]<class T>() {
    all.push_back([](Stage& s) { s.value<T>() + s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() - s.value<T>(); });
    all.push_back([](Stage& s) { T(7) - s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() * s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() / s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() % s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() << s.value<uint32_t>(); });
    all.push_back([](Stage& s) { s.value<T>() >> s.value<uint32_t>(); });
    all.push_back([](Stage& s) { mul_hi(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { mad(s.value<T>(), s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { min(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { max(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { -s.value<T>(); });
  });
  types<int16_t, int32_t, int64_t>([&]<class T>() { all.push_back([](Stage& s) { abs(s.value<T>()); }); });
  types<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, bool>([&]<class T>() {
    all.push_back([](Stage& s) { s.value<T>() & s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() | s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() ^ s.value<T>(); });
    all.push_back([](Stage& s) { ~s.value<T>(); });
  });
  types<uint16_t, int16_t, uint32_t, int32_t>([&]<class T>() {
    all.push_back([](Stage& s) { mul_wide(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { mad_wide(s.value<T>(), s.value<T>(), s.value<WiderT<T>>()); });
  });
}

void bits(Probes& all) {
  types<uint32_t, int32_t, uint64_t, int64_t>([&]<class T>() {
    all.push_back([](Stage& s) { bit_field(s.value<T>(), s.value<uint32_t>(), s.value<uint32_t>()); });
    all.push_back([](Stage& s) { insert_bits(s.value<T>(), s.value<T>(), s.value<uint32_t>(), s.value<uint32_t>()); });
  });
  types<uint32_t, uint64_t>([&]<class T>() {
    all.push_back([](Stage& s) { popcount(s.value<T>()); });
    all.push_back([](Stage& s) { leading_zeros(s.value<T>()); });
    all.push_back([](Stage& s) { reverse_bits(s.value<T>()); });
  });
  all.push_back([](Stage& s) { funnel_left(s.value<uint32_t>(), s.value<uint32_t>(), s.value<uint32_t>()); });
  all.push_back([](Stage& s) { funnel_right(s.value<uint32_t>(), s.value<uint32_t>(), s.value<uint32_t>()); });
  all.push_back([](Stage& s) { permute_bytes(s.value<uint32_t>(), s.value<uint32_t>(), s.value<uint32_t>()); });
  all.push_back([](Stage& s) { lop3(s.value<uint32_t>(), s.value<uint32_t>(), s.value<uint32_t>(), 0xE8); });
}

template <class A, class B, class Wide>
void dots(Probes& all) {
  using R = std::conditional_t<std::is_signed_v<A> || std::is_signed_v<B>, int32_t, uint32_t>;
  all.push_back([](Stage& s) { dp4a<A, B>(s.value<uint32_t>(), s.value<uint32_t>(), s.value<R>()); });
  for (bool high : {false, true})
    all.push_back([high](Stage& s) { dp2a<Wide, B>(s.value<uint32_t>(), s.value<uint32_t>(), s.value<R>(), high); });
}

void floats(Probes& all) {
  types<f16, bf16, f16x2, bf16x2, float, double>([&]<class T>() {
    all.push_back([](Stage& s) { s.value<T>() + s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() - s.value<T>(); });
    all.push_back([](Stage& s) { s.value<T>() * s.value<T>(); });
    all.push_back([](Stage& s) { fma(s.value<T>(), s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { min(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { max(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { abs(s.value<T>()); });
    all.push_back([](Stage& s) { -s.value<T>(); });
    all.push_back([](Stage& s) { s.var(s.value<T>()) += s.value<T>(); });
    all.push_back([](Stage& s) { s.var(s.value<T>()) *= s.value<T>(); });
    all.push_back([](Stage& s) { s.var(s.value<T>()).add_product(s.value<T>(), s.value<T>()); });
  });
  types<float, double>([&]<class T>() {
    for (Round r : roundings) {
      all.push_back([r](Stage& s) { add(r, s.value<T>(), s.value<T>()); });
      all.push_back([r](Stage& s) { sub(r, s.value<T>(), s.value<T>()); });
      all.push_back([r](Stage& s) { mul(r, s.value<T>(), s.value<T>()); });
      all.push_back([r](Stage& s) { div(r, s.value<T>(), s.value<T>()); });
      all.push_back([r](Stage& s) { fma(r, s.value<T>(), s.value<T>(), s.value<T>()); });
      all.push_back([r](Stage& s) { rcp(s.value<T>(), r); });
      all.push_back([r](Stage& s) { sqrt(s.value<T>(), r); });
    }
  });
}

void functions(Probes& all) {
  all.push_back([](Stage& s) { div_approx(s.value<float>(), s.value<float>()); });
  all.push_back([](Stage& s) { rcp_approx(s.value<float>()); });
  all.push_back([](Stage& s) { rcp_approx_ftz(s.value<float>()); });
  all.push_back([](Stage& s) { rsqrt_approx(s.value<float>()); });
  all.push_back([](Stage& s) { sqrt_approx(s.value<float>()); });
  all.push_back([](Stage& s) { ex2_approx_ftz(s.value<float>()); });
  all.push_back([](Stage& s) { lg2_approx(s.value<float>()); });
  all.push_back([](Stage& s) { sin_approx(s.value<float>()); });
  all.push_back([](Stage& s) { cos_approx(s.value<float>()); });
  types<float, f16, f16x2>([&]<class T>() { all.push_back([](Stage& s) { ex2_approx(s.value<T>()); }); });
  types<float, f16, f16x2, bf16, bf16x2>(
      [&]<class T>() { all.push_back([](Stage& s) { tanh_approx(s.value<T>()); }); });
}

// f32 with subnormals flushed, which the builder has for two functions only.
void with_ftz(Probes& all) {
  const Probe plain[] = {
      [](Stage& s) { s.value<float>() + s.value<float>(); },
      [](Stage& s) { s.value<float>() - s.value<float>(); },
      [](Stage& s) { s.value<float>() * s.value<float>(); },
      [](Stage& s) { s.value<float>() / s.value<float>(); },
      [](Stage& s) { div_approx(s.value<float>(), s.value<float>()); },
      [](Stage& s) { fma(s.value<float>(), s.value<float>(), s.value<float>()); },
      [](Stage& s) { min(s.value<float>(), s.value<float>()); },
      [](Stage& s) { max(s.value<float>(), s.value<float>()); },
      [](Stage& s) { min_nan(s.value<float>(), s.value<float>()); },
      [](Stage& s) { max_nan(s.value<float>(), s.value<float>()); },
      [](Stage& s) { abs(s.value<float>()); },
      [](Stage& s) { -s.value<float>(); },
      [](Stage& s) { compare(Compare::lt, s.value<float>(), s.value<float>()); },
      [](Stage& s) { rcp(s.value<float>()); },
      [](Stage& s) { sqrt(s.value<float>()); },
      [](Stage& s) { sqrt_approx(s.value<float>()); },
      [](Stage& s) { rsqrt_approx(s.value<float>()); },
      [](Stage& s) { lg2_approx(s.value<float>()); },
      [](Stage& s) { sin_approx(s.value<float>()); },
      [](Stage& s) { cos_approx(s.value<float>()); },
  };
  for (const Probe& p : plain)
    all.push_back([p](Stage& s) {
      p(s);
      s.last().ftz = true;
    });
}

void comparisons(Probes& all) {
  types<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>([&]<class T>() {
    for (Compare c : {Compare::eq, Compare::ne, Compare::lt, Compare::le, Compare::gt, Compare::ge})
      all.push_back([c](Stage& s) { compare(c, s.value<T>(), s.value<T>()); });
  });
  types<f16, bf16, float, double>([&]<class T>() {
    for (int c = int(Compare::eq); c <= int(Compare::nan); ++c)
      all.push_back([c](Stage& s) { compare(Compare(c), s.value<T>(), s.value<T>()); });
  });
  types<bool, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, f16, bf16, f16x2, bf16x2, float, double, tf32,
        e4m3x2, e5m2x2>([&]<class T>() {
    all.push_back([](Stage& s) { select(s.value<bool>(), s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { s.constant(T{}); });
    all.push_back([](Stage& s) { s.var(s.value<T>()).get(); });
    all.push_back([](Stage& s) { s.assume_uniform(s.value<T>()); });
  });
}

}  // namespace

void add_arithmetic(Probes& all) {
  integers(all);
  bits(all);
  dots<uint8_t, uint8_t, uint16_t>(all);
  dots<uint8_t, int8_t, uint16_t>(all);
  dots<int8_t, uint8_t, int16_t>(all);
  dots<int8_t, int8_t, int16_t>(all);
  floats(all);
  functions(all);
  with_ftz(all);
  comparisons(all);
}

}  // namespace heddle::ptx::instructions

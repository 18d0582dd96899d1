// Probes of conversions: every pair of types, every rounding, bit casts, packing and unpacking.
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx::instructions {
namespace {

using heddle::bf16;
using heddle::f16;

constexpr Round conversion_roundings[] = {Round::rn, Round::rz, Round::rm, Round::rp};
constexpr Round to_whole[] = {Round::rni, Round::rzi, Round::rmi, Round::rpi};

template <class F>
void integer_types(F&& fn) {
  types<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(fn);
}

void integers_to_integers(Probes& all) {
  integer_types([&]<class R>() {
    integer_types([&]<class T>() {
      all.push_back([](Stage& s) { to<R>(s.value<T>()); });
      all.push_back([](Stage& s) { to_saturated<R>(s.value<T>()); });
    });
  });
}

void integers_and_floats(Probes& all) {
  integer_types([&]<class I>() {
    types<f16, float, double>([&]<class F>() {
      for (Round r : conversion_roundings) all.push_back([r](Stage& s) { to<F>(s.value<I>(), r); });
      for (Round r : to_whole) all.push_back([r](Stage& s) { to<I>(s.value<F>(), r); });
    });
  });
}

void floats_to_floats(Probes& all) {
  types<float, double>([&]<class T>() {
    for (Round r : to_whole) all.push_back([r](Stage& s) { round_to_whole(s.value<T>(), r); });
  });
  all.push_back([](Stage& s) { to_f32(s.value<f16>()); });
  all.push_back([](Stage& s) { to_f32(s.value<bf16>()); });
  all.push_back([](Stage& s) { to_f64(s.value<float>()); });
  all.push_back([](Stage& s) { to_f64(s.value<f16>()); });
  for (Round r : conversion_roundings) {
    all.push_back([r](Stage& s) { to_f32(s.value<double>(), r); });
    all.push_back([r](Stage& s) { to_f16(s.value<float>(), r); });
    all.push_back([r](Stage& s) { to_f16(s.value<double>(), r); });
  }
  for (Round r : {Round::rn, Round::rz}) all.push_back([r](Stage& s) { to_bf16(s.value<float>(), r); });
  all.push_back([](Stage& s) { to_tf32(s.value<float>()); });
  all.push_back([](Stage& s) { to_f16x2(s.value<float>(), s.value<float>()); });
  all.push_back([](Stage& s) { to_bf16x2(s.value<float>(), s.value<float>()); });
  all.push_back([](Stage& s) { to_e4m3x2(s.value<float>(), s.value<float>()); });
  all.push_back([](Stage& s) { to_e5m2x2(s.value<float>(), s.value<float>()); });
  all.push_back([](Stage& s) { to_e4m3x2(s.value<f16x2>()); });
  all.push_back([](Stage& s) { to_e5m2x2(s.value<f16x2>()); });
  all.push_back([](Stage& s) { to_f16x2(s.value<e4m3x2>()); });
  all.push_back([](Stage& s) { to_f16x2(s.value<e5m2x2>()); });
}

template <class F>
void types16(F&& fn) {
  types<uint16_t, int16_t, f16, bf16, e4m3x2, e5m2x2>(fn);
}
template <class F>
void types32(F&& fn) {
  types<uint32_t, int32_t, float, f16x2, bf16x2, tf32>(fn);
}
template <class F>
void types64(F&& fn) {
  types<uint64_t, int64_t, double>(fn);
}

void bit_patterns(Probes& all) {
  const auto casts = [&]<class R, class T>() { all.push_back([](Stage& s) { bitcast<R>(s.value<T>()); }); };
  types16([&]<class R>() { types16([&]<class T>() { casts.template operator()<R, T>(); }); });
  types32([&]<class R>() { types32([&]<class T>() { casts.template operator()<R, T>(); }); });
  types64([&]<class R>() { types64([&]<class T>() { casts.template operator()<R, T>(); }); });
  const auto packs = [&]<class R, class T>() {
    all.push_back([](Stage& s) { pack<R>(s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { unpack<T>(s.value<R>()); });
  };
  types32([&]<class R>() { types16([&]<class T>() { packs.template operator()<R, T>(); }); });
  types64([&]<class R>() { types32([&]<class T>() { packs.template operator()<R, T>(); }); });
}

}  // namespace

void add_conversions(Probes& all) {
  integers_to_integers(all);
  integers_and_floats(all);
  floats_to_floats(all);
  bit_patterns(all);
}

}  // namespace heddle::ptx::instructions

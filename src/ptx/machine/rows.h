// How an operation on values becomes an instruction on a warp's rows. Functors from numbers.h in, Execs out.
#pragma once
#include <bit>
#include <type_traits>

#include "ptx/machine/machine.h"
#include "ptx/types.h"

namespace heddle::ptx::machine {

// What a row of T is made of: the value a functor sees, and the plain type it lies in memory as (structs would keep the
// compiler from using vectors). A packed pair is two elements to a lane, the lower first: 64 neighbours in the row.
template <class T>
struct Element {
  using Value = T;
  using Raw = T;
  static constexpr uint32_t per_lane = 1;
};
template <>
struct Element<bool> {
  using Value = uint32_t;
  using Raw = uint32_t;
  static constexpr uint32_t per_lane = 1;
};
template <class T, uint32_t n>
struct HalfElement {
  using Value = T;
  using Raw = uint16_t;
  static constexpr uint32_t per_lane = n;
};
template <>
struct Element<heddle::f16> : HalfElement<heddle::f16, 1> {};
template <>
struct Element<heddle::bf16> : HalfElement<heddle::bf16, 1> {};
template <>
struct Element<f16x2> : HalfElement<heddle::f16, 2> {};
template <>
struct Element<bf16x2> : HalfElement<heddle::bf16, 2> {};
template <class T>
using Raw = typename Element<T>::Raw;
template <class T>
typename Element<T>::Value element(Raw<T> raw) {
  return std::bit_cast<typename Element<T>::Value>(raw);
}

// d[i] = f(i) for the elements of the active lanes. f runs for the others too, so that a partial warp is done in
// vectors like a full one: it must accept any operand, and what it gives there is dropped.
template <uint32_t per_lane, class D, class F>
inline void each_element(Warp& w, uint32_t dst, F f) {
  D* const d = w.write<D>(dst);
  const uint32_t mask = w.mask;
  if (mask == ~0u) {
    HEDDLE_LANES for (uint32_t i = 0; i < 32 * per_lane; ++i) d[i] = f(i);
  } else {
    HEDDLE_LANES for (uint32_t i = 0; i < 32 * per_lane; ++i) {
      const D result = f(i);
      d[i] = mask >> (i / per_lane) & 1 ? result : d[i];
    }
  }
}

// Row operations: D the type of the result, A, B, ... of the sources, F a functor on their elements.
template <class D, class F>
void store_row(Warp& w, const Step& s, F f) {
  each_element<Element<D>::per_lane, Raw<D>>(w, s.dst[0], [=](uint32_t i) { return std::bit_cast<Raw<D>>(f(i)); });
}
template <class F, class D, class A>
void unary(Warp& w, const Step& s) {
  const auto a = w.read<Raw<A>>(s.src[0]);
  store_row<D>(w, s, [=](uint32_t i) { return F()(element<A>(a[i])); });
}
template <class F, class D, class A, class B>
void binary(Warp& w, const Step& s) {
  const auto a = w.read<Raw<A>>(s.src[0]);
  const auto b = w.read<Raw<B>>(s.src[1]);
  store_row<D>(w, s, [=](uint32_t i) { return F()(element<A>(a[i]), element<B>(b[i])); });
}
template <class F, class D, class A, class B, class C>
void ternary(Warp& w, const Step& s) {
  const auto a = w.read<Raw<A>>(s.src[0]);
  const auto b = w.read<Raw<B>>(s.src[1]);
  const auto c = w.read<Raw<C>>(s.src[2]);
  store_row<D>(w, s, [=](uint32_t i) { return F()(element<A>(a[i]), element<B>(b[i]), element<C>(c[i])); });
}
template <class F, class D, class A, class B, class C, class E>
void quaternary(Warp& w, const Step& s) {
  const auto a = w.read<Raw<A>>(s.src[0]);
  const auto b = w.read<Raw<B>>(s.src[1]);
  const auto c = w.read<Raw<C>>(s.src[2]);
  const auto e = w.read<Raw<E>>(s.src[3]);
  store_row<D>(w, s,
               [=](uint32_t i) { return F()(element<A>(a[i]), element<B>(b[i]), element<C>(c[i]), element<E>(e[i])); });
}
// For functions worth skipping in inactive lanes: a call into libm costs more than a whole row of additions.
template <class F, class D, class A>
void unary_by_lane(Warp& w, const Step& s) {
  constexpr uint32_t n = Element<D>::per_lane;
  const auto a = w.read<Raw<A>>(s.src[0]);
  const auto d = w.write<Raw<D>>(s.dst[0]);
  for (uint32_t i = 0; i < 32 * n; ++i)
    if (w.active(i / n)) d[i] = std::bit_cast<Raw<D>>(F()(element<A>(a[i])));
}

// --- choosing an Exec by the types of an instruction
// ------------------------------------------------------------------
template <class T>
struct Tag {
  using type = T;
};
// choose(Tag<T>()) for the T among Ts that `t` names; null if it is none of them.
template <class... Ts, class F>
Exec by_type(Type t, F choose) {
  Exec exec = nullptr;
  (void)((t == type_of<Ts> ? (exec = choose(Tag<Ts>()), true) : false) || ...);
  return exec;
}
template <class F>
Exec by_integer(Type t, F choose) {
  return by_type<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>(t, choose);
}
// Operations that only move bits go by the size of the register.
template <class F>
Exec by_size(Type t, F choose) {
  switch (t == Type::pred ? 4 : register_bytes(t)) {
    case 2:
      return choose(Tag<uint16_t>());
    case 4:
      return choose(Tag<uint32_t>());
    case 8:
      return choose(Tag<uint64_t>());
  }
  return nullptr;
}
// choose(integral_constant of the value) for the value among `values` that `v` is; null if it is none of them.
template <auto... values, class V, class F>
Exec by_value(V v, F choose) {
  Exec exec = nullptr;
  (void)((v == values ? (exec = choose(std::integral_constant<V, values>()), true) : false) || ...);
  return exec;
}

}  // namespace heddle::ptx::machine

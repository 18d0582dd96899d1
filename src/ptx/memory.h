// Traffic with memory: typed addresses, loads and stores, atomics, fences. Every function here is one access.
#pragma once
#include "base/error.h"
#include "ptx/convert.h"

namespace heddle::ptx {

// A typed address in one state space: a register plus a constant number of bytes that costs nothing.
// Shared addresses are 32 bits wide, all others 64.
template <class T, Space S>
struct Ptr {
  using Address = std::conditional_t<S == Space::shared || S == Space::cluster, uint32_t, uint64_t>;
  Val<Address> base;
  int64_t bytes = 0;

  Ptr operator+(Arg<uint32_t> index) const {
    if (index.op.kind == Operand::Kind::imm) return offset(int64_t(index.op.bits));
    U32 i{base.rec, index.op};
    if constexpr (sizeof(Address) == 8)
      return {mad_wide(i, Arg<uint32_t>(uint32_t(sizeof(T)), index.loc), base), bytes};
    else
      return {mad(i, Arg<uint32_t>(uint32_t(sizeof(T)), index.loc), base), bytes};
  }
  Ptr operator+(U64 index) const requires(sizeof(Address) == 8) {
    return {mad(index, Arg<uint64_t>(sizeof(T), {}), Arg<uint64_t>(base, {})), bytes};
  }
  Ptr offset(int64_t elements) const { return {base, bytes + elements * int64_t(sizeof(T))}; }
  template <class U>
  Ptr<U, S> as() const {
    return {base, bytes};
  }
  // The address as a number.
  Val<Address> address(Loc loc = Loc::current()) const {
    return bytes ? base + Arg<Address>(Address(bytes), loc) : base;
  }
};
template <class T>
using Global = Ptr<T, Space::global>;
template <class T>
using Shared = Ptr<T, Space::shared>;
template <class T>
using ClusterShared = Ptr<T, Space::cluster>;  // shared memory of any block of the cluster
template <class T>
using Constant = Ptr<T, Space::constant>;

// 8-bit values are widened to 32 bits on their way into a register.
template <class T>
using Loaded =
    std::conditional_t<std::same_as<T, uint8_t>, uint32_t, std::conditional_t<std::same_as<T, int8_t>, int32_t, T>>;
template <class T, size_t N>
using Vec = std::array<Val<T>, N>;

// How a load or store treats the caches and other threads.
struct Access {
  bool nc = false;  // the data does not change while the kernel runs (and was there before it began)
  L1 l1 = L1::normal;
  uint16_t l2_prefetch = 0;  // 64, 128 or 256: bytes around the address to bring to L2
  Order order = Order::weak;
  Scope scope = Scope::none;
  U64 policy{};  // from k.cache_policy(...); empty: none
};

namespace detail {
template <class T, Space S>
std::vector<Operand> load_into(Ptr<T, S> p, uint8_t n, const Access& how, Loc loc) {
  Recorder& r = *p.base.rec;
  std::vector<Operand> dst;
  for (uint8_t i = 0; i < n; ++i) dst.push_back(r.reg(type_of<Loaded<T>>));
  Inst inst{.op = Op::load,
            .type = type_of<T>,
            .dst = dst,
            .src = {p.base.op},
            .offset = p.bytes,
            .space = S,
            .vec = n,
            .order = how.order,
            .scope = how.scope,
            .l1 = how.l1,
            .l2_prefetch = how.l2_prefetch,
            .nc = how.nc};
  if (how.policy.rec) {
    inst.src.push_back(how.policy.op);
    inst.policy = true;
  }
  r.append(std::move(inst), loc);
  return dst;
}
template <class T, Space S>
void store_from(Ptr<T, S> p, std::vector<Operand> values, const Access& how, Loc loc) {
  Inst inst{.op = Op::store,
            .type = type_of<T>,
            .src = {p.base.op},
            .offset = p.bytes,
            .space = S,
            .vec = uint8_t(values.size()),
            .order = how.order,
            .scope = how.scope,
            .l1 = how.l1};
  inst.src.insert(inst.src.end(), values.begin(), values.end());
  if (how.policy.rec) {
    inst.src.push_back(how.policy.op);
    inst.policy = true;
  }
  p.base.rec->append(std::move(inst), loc);
}
}  // namespace detail

template <class T, Space S>
Val<Loaded<T>> load(Ptr<T, S> p, Access how = {}, Loc loc = Loc::current()) {
  return {p.base.rec, detail::load_into(p, 1, how, loc)[0]};
}
// N = 2 or 4 neighbours in one access of at most 16 bytes; the address must be a multiple of that size.
template <size_t N, class T, Space S>
Vec<Loaded<T>, N> load_vec(Ptr<T, S> p, Access how = {}, Loc loc = Loc::current()) {
  static_assert((N == 2 || N == 4) && N * sizeof(T) <= 16, "a vector access is 2 or 4 values and at most 16 bytes");
  auto regs = detail::load_into(p, N, how, loc);
  Vec<Loaded<T>, N> v;
  for (size_t i = 0; i < N; ++i) v[i] = {p.base.rec, regs[i]};
  return v;
}
template <class T, Space S>
void store(Ptr<T, S> p, Arg<std::type_identity_t<Loaded<T>>> v, Access how = {}) {
  static_assert(S != Space::constant && S != Space::param, "this space cannot be written");
  detail::store_from(p, {v.op}, how, v.loc);
}
template <class T, Space S, size_t N>
void store_vec(Ptr<T, S> p, const Vec<std::type_identity_t<Loaded<T>>, N>& v, Access how = {},
               Loc loc = Loc::current()) {
  static_assert((N == 2 || N == 4) && N * sizeof(T) <= 16, "a vector access is 2 or 4 values and at most 16 bytes");
  static_assert(S != Space::constant && S != Space::param, "this space cannot be written");
  std::vector<Operand> ops;
  for (auto& x : v) ops.push_back(x.op);
  detail::store_from(p, std::move(ops), how, loc);
}
template <class T, Space S>
Val<Loaded<T>> load_acquire(Ptr<T, S> p, Scope scope = Scope::gpu, Loc loc = Loc::current()) {
  return load(p, {.order = Order::acquire, .scope = scope}, loc);
}
template <class T, Space S>
Val<Loaded<T>> load_relaxed(Ptr<T, S> p, Scope scope = Scope::gpu, Loc loc = Loc::current()) {
  return load(p, {.order = Order::relaxed, .scope = scope}, loc);
}
template <class T, Space S>
void store_release(Ptr<T, S> p, Arg<std::type_identity_t<Loaded<T>>> v, Scope scope = Scope::gpu) {
  store(p, v, {.order = Order::release, .scope = scope});
}
template <class T, Space S>
void store_relaxed(Ptr<T, S> p, Arg<std::type_identity_t<Loaded<T>>> v, Scope scope = Scope::gpu) {
  store(p, v, {.order = Order::relaxed, .scope = scope});
}
template <class T>
void prefetch(Global<T> p, uint8_t level = 2, Loc loc = Loc::current()) {
  p.base.rec->append(
      {.op = Op::prefetch, .src = {p.base.op}, .offset = p.bytes, .space = Space::global, .level = level}, loc);
}

// --- atomics: relaxed at gpu scope unless said otherwise ----------------------------------------------------------
struct Sync {
  Order order = Order::relaxed;
  Scope scope = Scope::gpu;
};
template <class T, Space S>
Val<T> atomic(Atomic what, Ptr<T, S> p, Arg<std::type_identity_t<T>> v, Sync sync = {}) {
  Recorder& r = *p.base.rec;
  return {&r, r.emit({.op = Op::atom,
                      .type = type_of<T>,
                      .src = {p.base.op, v.op},
                      .offset = p.bytes,
                      .space = S,
                      .order = sync.order,
                      .scope = sync.scope,
                      .atomic = what},
                     type_of<T>, v.loc)};
}
template <class T, Space S>
Val<T> atomic_add(Ptr<T, S> p, Arg<std::type_identity_t<T>> v, Sync sync = {}) {
  return atomic(Atomic::add, p, v, sync);
}
template <class T, Space S>
Val<T> compare_swap(Ptr<T, S> p, Arg<std::type_identity_t<T>> expected, Arg<std::type_identity_t<T>> desired,
                    Sync sync = {}) {
  Recorder& r = *p.base.rec;
  return {&r, r.emit({.op = Op::atom,
                      .type = type_of<T>,
                      .src = {p.base.op, expected.op, desired.op},
                      .offset = p.bytes,
                      .space = S,
                      .order = sync.order,
                      .scope = sync.scope,
                      .atomic = Atomic::cas},
                     type_of<T>, expected.loc)};
}
// The same without the old value.
template <class T, Space S>
void reduce(Atomic what, Ptr<T, S> p, Arg<std::type_identity_t<T>> v, Sync sync = {}) {
  p.base.rec->append({.op = Op::red,
                      .type = type_of<T>,
                      .src = {p.base.op, v.op},
                      .offset = p.bytes,
                      .space = S,
                      .order = sync.order,
                      .scope = sync.scope,
                      .atomic = what},
                     v.loc);
}

// Loads and stores of 1, 2 or 4 neighbours in one access, where the width is a field of the spec.
template <class T, Space S>
requires(sizeof(T) <= 4) std::vector<Val<Loaded<T>>> load_wide(Ptr<T, S> p, uint32_t width, Access how = {},
                                                               Loc loc = Loc::current()) {
  check(width == 1 || width == 2 || width == 4, "an access is 1, 2 or 4 values");
  auto list = [](const auto& v) { return std::vector(v.begin(), v.end()); };
  if (width == 1) return {load(p, how, loc)};
  return width == 2 ? list(load_vec<2>(p, how, loc)) : list(load_vec<4>(p, how, loc));
}

template <class T, Space S>
requires(sizeof(T) <= 4) void store_wide(Ptr<T, S> p, const std::vector<Val<T>>& v, Access how = {},
                                         Loc loc = Loc::current()) {
  check(v.size() == 1 || v.size() == 2 || v.size() == 4, "an access is 1, 2 or 4 values");
  if (v.size() == 1) return store(p, Arg<T>(v[0], loc), how);
  if (v.size() == 2) return store_vec(p, Vec<T, 2>{v[0], v[1]}, how, loc);
  store_vec(p, Vec<T, 4>{v[0], v[1], v[2], v[3]}, how, loc);
}

}  // namespace heddle::ptx

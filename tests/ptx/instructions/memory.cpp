// Probes of memory: loads and stores by type, space, width, cache hint and order; arguments; atomics; fences.
#include "tests/ptx/instructions/instructions.h"

namespace heddle::ptx::instructions {
namespace {

using heddle::bf16;
using heddle::f16;

template <class F>
void memory_types(F&& fn) {
  types<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, f16, bf16, f16x2, bf16x2, float,
        double, tf32, e4m3x2, e5m2x2>(fn);
}

constexpr Scope scopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

template <class T>
void vectors(Probes& all) {
  const auto sized = [&]<size_t N>() {
    if constexpr (N * sizeof(T) <= 16) {
      all.push_back([](Stage& s) { load_vec<N>(s.global<T>()); });
      all.push_back([](Stage& s) { load_vec<N>(s.global<T>(), {.nc = true}); });
      all.push_back([](Stage& s) { load_vec<N>(s.shared_at<T>()); });
      all.push_back([](Stage& s) { load_vec<N>(s.cluster_at<T>()); });
      all.push_back([](Stage& s) { load_vec<N>(Constant<T>{s.constants(std::vector<uint64_t>{1, 2}).base}); });
      if constexpr (sizeof(T) > 1) {
        all.push_back([](Stage& s) {
          Vec<T, N> v;
          for (auto& x : v) x = s.value<T>();
          store_vec(s.global<T>(), v);
        });
        all.push_back([](Stage& s) {
          Vec<T, N> v;
          for (auto& x : v) x = s.value<T>();
          store_vec(s.shared_at<T>(), v);
        });
      }
    }
  };
  sized.template operator()<2>();
  sized.template operator()<4>();
}

void plain_accesses(Probes& all) {
  memory_types([&]<class T>() {
    all.push_back([](Stage& s) { load(s.global<T>().offset(-3)); });
    all.push_back([](Stage& s) { load(s.global<T>() + s.value<uint64_t>()); });
    all.push_back([](Stage& s) { load(s.shared_at<T>() + s.value<uint32_t>()); });
    all.push_back([](Stage& s) { load(s.cluster_at<T>()); });
    all.push_back([](Stage& s) {
      load(Constant<T>{s.constants(std::vector<uint64_t>{1, 2}).base} + s.value<uint32_t>());
    });
    all.push_back([](Stage& s) { store(s.global<T>(), s.value<Loaded<T>>()); });
    all.push_back([](Stage& s) { store(s.global<T>(), Loaded<T>{}); });
    all.push_back([](Stage& s) { store(s.shared_at<T>(), s.value<Loaded<T>>()); });
    all.push_back([](Stage& s) { store(s.cluster_at<T>(), s.value<Loaded<T>>()); });
    vectors<T>(all);
  });
  // an offset that is too large for the instruction
  all.push_back([](Stage& s) { load(s.global<uint64_t>().offset(int64_t(1) << 32)); });
  all.push_back([](Stage& s) { store(s.global<uint64_t>().offset(-(int64_t(1) << 40)), 0u); });
}

void arguments(Probes& all) {
  const auto each = [&](auto... member) { (all.push_back([member](Stage& s) { s.arg(member); }), ...); };
  each(&Args::memory, &Args::map, &Args::u8, &Args::s8, &Args::u16, &Args::s16, &Args::u32, &Args::s32, &Args::u64,
       &Args::s64, &Args::f16, &Args::bf16, &Args::f16x2, &Args::bf16x2, &Args::f32, &Args::f64, &Args::tf32,
       &Args::e4m3x2, &Args::e5m2x2);
  all.push_back([](Stage& s) { s.dynamic_shared<float>(); });
}

// Cache hints: on a scalar and on 16 bytes, ordinary and read-only.
void cache_hints(Probes& all) {
  const auto loads = [&](Access how) {
    for (bool nc : {false, true}) {
      how.nc = nc;
      all.push_back([how](Stage& s) { load(s.global<float>(), how); });
      all.push_back([how](Stage& s) { load_vec<4>(s.global<uint32_t>(), how); });
      all.push_back([how](Stage& s) {
        Access with = how;
        with.policy = s.value<uint64_t>();
        load_vec<2>(s.global<uint64_t>(), with);
      });
    }
  };
  for (L1 l1 : {L1::normal, L1::no_allocate, L1::evict_first, L1::evict_last, L1::evict_unchanged}) {
    for (uint16_t prefetch : {0, 64, 128, 256}) loads({.l1 = l1, .l2_prefetch = prefetch});
    all.push_back([l1](Stage& s) { store(s.global<float>(), 1.0f, {.l1 = l1}); });
    all.push_back([l1](Stage& s) { store(s.global<float>(), 1.0f, {.l1 = l1, .policy = s.value<uint64_t>()}); });
    all.push_back([l1](Stage& s) {
      Vec<float, 4> v;
      for (auto& x : v) x = s.value<float>();
      store_vec(s.global<float>(), v, {.l1 = l1, .policy = s.value<uint64_t>()});
    });
  }
  for (L2 l2 : {L2::normal, L2::evict_first, L2::evict_last, L2::evict_normal})
    all.push_back([l2](Stage& s) { s.cache_policy(l2); });
  for (uint8_t level : {1, 2}) all.push_back([level](Stage& s) { prefetch(s.global<float>(), level); });
}

void ordered(Probes& all) {
  types<uint8_t, uint16_t, uint32_t, uint64_t, float, double, f16>([&]<class T>() {
    for (Scope scope : scopes) {
      all.push_back([scope](Stage& s) { load_acquire(s.global<T>(), scope); });
      all.push_back([scope](Stage& s) { load_relaxed(s.global<T>(), scope); });
      all.push_back([scope](Stage& s) { load_relaxed(s.shared_at<T>(), scope); });
      all.push_back([scope](Stage& s) { load_acquire(s.cluster_at<T>(), scope); });
      all.push_back([scope](Stage& s) { store_release(s.global<T>(), s.value<Loaded<T>>(), scope); });
      all.push_back([scope](Stage& s) { store_relaxed(s.global<T>(), s.value<Loaded<T>>(), scope); });
      all.push_back([scope](Stage& s) { store_release(s.shared_at<T>(), s.value<Loaded<T>>(), scope); });
    }
    const Access is_volatile{.order = Order::is_volatile};
    all.push_back([=](Stage& s) { load(s.global<T>(), is_volatile); });
    all.push_back([=](Stage& s) { load(s.shared_at<T>(), is_volatile); });
    all.push_back([=](Stage& s) { store(s.global<T>(), s.value<Loaded<T>>(), is_volatile); });
  });
  all.push_back([](Stage& s) {
    load_vec<4>(s.global<float>(), {.l1 = L1::no_allocate, .order = Order::relaxed, .scope = Scope::gpu});
  });
  for (Scope scope : scopes)
    for (Order order : {Order::acquire, Order::release, Order::acq_rel, Order::seq_cst})
      all.push_back([=](Stage& s) { s.fence(order, scope); });
}

template <class T>
void atomics(Probes& all, std::initializer_list<Atomic> list) {
  for (Atomic what : list) {
    all.push_back([what](Stage& s) { atomic(what, s.global<T>(), s.value<T>()); });
    all.push_back([what](Stage& s) { atomic(what, s.shared_at<T>(), s.value<T>(), {.scope = Scope::cta}); });
    all.push_back([what](Stage& s) { atomic(what, s.cluster_at<T>(), s.value<T>(), {.scope = Scope::cluster}); });
    if (what == Atomic::exch) continue;
    all.push_back([what](Stage& s) { reduce(what, s.global<T>(), s.value<T>()); });
    all.push_back([what](Stage& s) { reduce(what, s.shared_at<T>(), s.value<T>()); });
    all.push_back([what](Stage& s) { reduce(what, s.cluster_at<T>(), s.value<T>()); });
  }
}

void all_atomics(Probes& all) {
  using enum Atomic;
  atomics<uint32_t>(all, {add, min, max, bit_and, bit_or, bit_xor, exch, inc, dec});
  atomics<int32_t>(all, {add, min, max, bit_and, bit_or, bit_xor, exch});
  atomics<uint64_t>(all, {add, min, max, bit_and, bit_or, bit_xor, exch});
  atomics<int64_t>(all, {add, min, max, bit_and, bit_or, bit_xor, exch});
  atomics<float>(all, {add, exch});
  atomics<double>(all, {add, exch});
  atomics<f16>(all, {add});
  atomics<bf16>(all, {add});
  atomics<f16x2>(all, {add, exch});
  atomics<bf16x2>(all, {add, exch});
  types<uint16_t, int16_t, f16, bf16, uint32_t, int32_t, float, uint64_t, int64_t, double>([&]<class T>() {
    all.push_back([](Stage& s) { compare_swap(s.global<T>(), s.value<T>(), s.value<T>()); });
    all.push_back([](Stage& s) { compare_swap(s.shared_at<T>(), s.value<T>(), s.value<T>()); });
  });
  for (Scope scope : scopes) {
    for (Order order : {Order::relaxed, Order::acquire, Order::release, Order::acq_rel})
      all.push_back([=](Stage& s) { atomic_add(s.global<uint32_t>(), 1u, {order, scope}); });
    for (Order order : {Order::relaxed, Order::release})
      all.push_back([=](Stage& s) { reduce(add, s.global<uint32_t>(), 1u, {order, scope}); });
  }
}

}  // namespace

void add_memory(Probes& all) {
  plain_accesses(all);
  arguments(all);
  cache_hints(all);
  ordered(all);
  all_atomics(all);
}

}  // namespace heddle::ptx::instructions

// Cases of atomics: alone, many threads on one cell, and the protocols that are built on them.
#include <algorithm>
#include <bit>
#include <cmath>

#include "ptx/spelling.h"
#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

namespace {

// --- atomics ------------------------------------------------------------------------------------------------------
// One rounding to f32 from exact halves is the sum: the f32 sum of two f16 or bf16 may round, so use double.
template <class H, class F>
uint32_t add_pairs(uint32_t a, uint32_t b, F encode) {
  uint32_t r = 0;
  for (int half = 0; half < 32; half += 16)
    r |= uint32_t(encode(double(to_f32(H{uint16_t(a >> half)})) + double(to_f32(H{uint16_t(b >> half)}))).bits) << half;
  return r;
}
template <class T>
T flushed_input(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(x) < std::numeric_limits<T>::min() ? std::copysign(T(0), x) : x;
  else
    return x;
}
// What is in memory after the operation.
template <class T>
T after(Atomic what, T old, T v, T desired) {
  if constexpr (std::same_as<T, f16x2>) {
    return {add_pairs<heddle::f16>(old.bits, v.bits, [](double x) { return heddle::to_f16(x); })};
  } else if constexpr (std::same_as<T, bf16x2>) {
    return {add_pairs<heddle::bf16>(old.bits, v.bits, [](double x) { return heddle::to_bf16(x); })};
  } else if constexpr (std::is_floating_point_v<T>) {
    return what == Atomic::add ? old + v : v;
  } else {
    using U = std::make_unsigned_t<T>;
    switch (what) {
      case Atomic::add:
        return T(U(old) + U(v));
      case Atomic::min:
        return v < old ? v : old;
      case Atomic::max:
        return v > old ? v : old;
      case Atomic::bit_and:
        return old & v;
      case Atomic::bit_or:
        return old | v;
      case Atomic::bit_xor:
        return old ^ v;
      case Atomic::exch:
        return v;
      case Atomic::cas:
        return old == v ? desired : old;
      case Atomic::inc:
        return old >= v ? 0 : old + 1;
      case Atomic::dec:
        return old == 0 || old > v ? v : old - 1;
    }
    return old;
  }
}

// old, operand, new value for cas. Integers: often equal or neighbours, so that every branch is taken. Floats: numbers.
template <class T>
void fill_atomic(Rng& rng, size_t index, T* v) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    const U special[] = {0, 1, U(~U(0)), U(U(1) << (sizeof(U) * 8 - 1)), U((U(1) << (sizeof(U) * 8 - 1)) - 1)};
    for (int i = 0; i < 3; ++i) v[i] = T(rng());
    if (index < 25) {
      v[0] = T(special[index / 5]);
      v[1] = T(special[index % 5]);
    }
    if (index >= 25 && index % 3 == 0) v[1] = T(U(v[0]) + U(rng() % 3) - 1);
  } else if constexpr (std::is_floating_point_v<T>) {
    // no NaN: which one comes out is unspecified
    for (int i = 0; i < 3; ++i) v[i] = T(std::ldexp(double(int64_t(rng())), int(rng() % 40) - 80));
    using Limits = std::numeric_limits<T>;
    const T special[] = {T(0),          T(-0.0),       T(INFINITY),        T(1),
                         Limits::max(), Limits::min(), -Limits::min() / 2, Limits::denorm_min()};
    if (index < 64) {
      v[0] = special[index / 8];
      v[1] = special[index % 8];
    }
    if (index >= 64 && index % 4 == 0)  // around the smallest normal numbers
      for (int i = 0; i < 3; ++i) v[i] = Limits::denorm_min() * T(int64_t(rng()) >> (64 - Limits::digits - 1));
  } else {
    for (int i = 0; i < 3; ++i) {
      uint32_t bits = uint32_t(rng());
      for (int half = 0; half < 32; half += 16) {
        const uint32_t exponent = std::same_as<T, f16x2> ? 0x7c00u << half : 0x7f80u << half;
        if ((bits & exponent) == exponent) bits &= ~(0x4000u << half);  // no NaN, no infinity
      }
      v[i] = T{bits};
    }
  }
}

// One thread, one address: the old value and what memory holds then.
template <class T>
void atomic_own(std::vector<Case>& all, Atomic what, const std::string& type, bool in_shared, bool red, Sync sync = {},
                const std::string& suffix = "") {
  all.push_back(make_case({.name = fmt::format("{}.{}.{}.{}{}", red ? "red" : "atom", in_shared ? "shared" : "global",
                                               spell(what), type, suffix),
                           .family = "memory",
                           .in_bytes = 3 * sizeof(T),
                           .out_bytes = 2 * sizeof(T),
                           .body =
                               [=](Place& p) {
                                 auto in = p.in.as<T>();
                                 Val<T> old = load(in), v = load(in.offset(1)), desired = load(in.offset(2));
                                 auto act = [&](auto cell) {
                                   store(cell, old);
                                   Val<T> before = old;
                                   if (red)
                                     reduce(what, cell, v, sync);
                                   else
                                     before = what == Atomic::cas ? compare_swap(cell, v, desired, sync)
                                                                  : atomic(what, cell, v, sync);
                                   store(p.out.as<T>(), before);
                                   return load(cell);
                                 };
                                 if (in_shared)
                                   store(p.out.as<T>().offset(1), act(p.k.shared<T>(128) + p.k.thread()));
                                 else
                                   act(p.out.as<T>().offset(1));
                               },
                           .reference =
                               [=](const uint8_t* in, uint8_t* out) {
                                 T v[3], r[2];
                                 std::memcpy(v, in, sizeof v);
                                 // a sum of f32 in global memory takes and gives zeros for subnormal numbers
                                 const bool flushes = std::same_as<T, float> && what == Atomic::add && !in_shared;
                                 auto kept = [&](T x) { return flushes ? flushed_input(x) : x; };
                                 r[0] = v[0];
                                 r[1] = kept(after(what, kept(v[0]), kept(v[1]), v[2]));
                                 std::memcpy(out, r, sizeof r);
                               },
                           .fill =
                               [](Rng& rng, size_t index, uint8_t* in) {
                                 T v[3];
                                 fill_atomic(rng, index, v);
                                 std::memcpy(in, v, sizeof v);
                               }}));
}

// All lanes of a warp at one address: what memory holds in the end, where the order does not matter. Floats are small
// whole numbers, so that every order gives the same sum; inc and dec have one limit for all lanes.
template <class T>
T small(uint64_t bits) {
  const int n = int(bits % 15) - 7;
  if constexpr (std::same_as<T, f16x2>)
    return {uint32_t(heddle::to_f16(n).bits) | uint32_t(heddle::to_f16(double(bits / 15 % 9)).bits) << 16};
  else if constexpr (std::same_as<T, bf16x2>)
    return {uint32_t(heddle::to_bf16(n % 3).bits) | uint32_t(heddle::to_bf16(double(bits / 15 % 4)).bits) << 16};
  else
    return T(n);
}
template <class T>
void atomic_together(std::vector<Case>& all, Atomic what, const std::string& type, bool in_shared, bool red) {
  constexpr bool whole = std::is_integral_v<T>;
  all.push_back(make_case({.name = fmt::format("{}.{}.{}.{}.warp", red ? "red" : "atom",
                                               in_shared ? "shared" : "global", spell(what), type),
                           .family = "memory",
                           .per_item = 32,
                           .in_bytes = sizeof(T),
                           .out_bytes = sizeof(T),
                           .body =
                               [=](Place& p) {
                                 // lane 0's input is where memory begins; the others act on it. In the global case the
                                 // cell is lane 0's output.
                                 auto& k = p.k;
                                 Val<T> v = load(p.in.as<T>());
                                 auto act = [&](auto cell) {
                                   k.when(k.lane() == 0u, [&] { store(cell, v); });
                                   k.warp_sync();
                                   k.when(k.lane() != 0u, [&] {
                                     if (red)
                                       reduce(what, cell, v);
                                     else
                                       atomic(what, cell, v);
                                   });
                                   k.warp_sync();
                                   return load(cell);
                                 };
                                 auto rest = [&](Val<T> result) { store(p.out.as<T>(), result); };
                                 if (in_shared)
                                   rest(act(k.shared<T>(4) + k.warp()));
                                 else {
                                   Global<T> first{p.out.address() - widen(k.lane() * uint32_t(sizeof(T)))};
                                   Val<T> result = act(first);
                                   k.warp_sync();
                                   rest(result);
                                 }
                               },
                           .reference =
                               [=](const uint8_t* in, uint8_t* out) {
                                 T v[32];
                                 std::memcpy(v, in, sizeof v);
                                 T cell = v[0];
                                 for (uint32_t l = 1; l < 32; ++l) cell = after(what, cell, v[l], v[l]);
                                 for (uint32_t l = 0; l < 32; ++l) std::memcpy(out + l * sizeof(T), &cell, sizeof(T));
                               },
                           .fill =
                               [=](Rng& rng, size_t index, uint8_t* in) {
                                 T v[32];
                                 const uint64_t limit = rng() % (index % 2 ? 20 : 2000);
                                 for (auto& x : v) {
                                   x = small<T>(rng());
                                   if constexpr (whole)
                                     x = what == Atomic::inc || what == Atomic::dec ? T(limit) : T(rng());
                                 }
                                 if constexpr (whole)
                                   if (what == Atomic::inc || what == Atomic::dec) v[0] = T(rng() % 40);
                                 std::memcpy(in, v, sizeof v);
                               }}));
}

template <class T>
void atomic_cases(std::vector<Case>& all, const std::string& type, std::initializer_list<Atomic> ops) {
  for (Atomic what : ops)
    for (bool in_shared : {false, true}) {
      atomic_own<T>(all, what, type, in_shared, false);
      const bool ordered = what == Atomic::exch || what == Atomic::cas;
      if (!ordered) atomic_own<T>(all, what, type, in_shared, true);
      if (!ordered) atomic_together<T>(all, what, type, in_shared, false);
      if (!ordered) atomic_together<T>(all, what, type, in_shared, true);
    }
}

// Tickets: the old values of 32 increments are all different; a compare-and-swap loop loses no addition.
void atomic_protocols(std::vector<Case>& all) {
  auto in_words = [](const uint8_t* in) {
    std::vector<uint32_t> w(32);
    std::memcpy(w.data(), in, 128);
    return w;
  };
  all.push_back(make_case({.name = "atom.shared.add.tickets",
                           .family = "memory",
                           .per_item = 32,
                           .in_bytes = 4,
                           .out_bytes = 4,
                           .body =
                               [](Place& p) {
                                 auto& k = p.k;
                                 auto cell = k.shared<uint32_t>(4) + k.warp();
                                 k.when(k.lane() == 0u, [&] { store(cell, 0u); });
                                 k.warp_sync();
                                 U32 ticket = atomic_add(cell, 1u);
                                 // the bit of the ticket that every lane drew
                                 U32 seen = warp_sum(k.constant(1u) << ticket);
                                 store(p.out.as<uint32_t>(), load(p.in.as<uint32_t>()) ^ seen);
                               },
                           .reference =
                               [=](const uint8_t* in, uint8_t* out) {
                                 auto w = in_words(in);
                                 for (auto& v : w) v = ~v;
                                 std::memcpy(out, w.data(), 128);
                               }}));
  for (bool in_shared : {false, true})
    all.push_back(make_case({.name = fmt::format("atom.{}.cas.b32.loop", in_shared ? "shared" : "global"),
                             .family = "memory",
                             .per_item = 32,
                             .in_bytes = 4,
                             .out_bytes = 4,
                             .body =
                                 [=](Place& p) {
                                   auto& k = p.k;
                                   U32 v = load(p.in.as<uint32_t>());
                                   auto add_all = [&](auto cell) {
                                     k.when(k.lane() == 0u, [&] { store(cell, 0u); });
                                     k.warp_sync();
                                     auto expected = k.var(load_relaxed(cell)), done = k.var(0u);
                                     k.loop_while([&] { return done.get() == 0u; },
                                                  [&] {
                                                    U32 want = expected.get();
                                                    U32 old = compare_swap(cell, want, want * 3u + v);
                                                    done = as_word(k, old == want);
                                                    expected = old;
                                                  });
                                     k.warp_sync();
                                     return load_relaxed(cell);
                                   };
                                   Global<uint32_t> first{p.out.address() - widen(k.lane() * 4u)};
                                   U32 total = in_shared ? add_all(k.shared<uint32_t>(4) + k.warp()) : add_all(first);
                                   k.warp_sync();
                                   store(p.out.as<uint32_t>(), total);
                                 },
                             // 3 * x + v with the same v in all lanes: any order gives the same
                             .reference =
                                 [=](const uint8_t* in, uint8_t* out) {
                                   auto w = in_words(in);
                                   uint32_t total = 0;
                                   for (uint32_t v : w) total = total * 3 + v;
                                   std::fill(w.begin(), w.end(), total);
                                   std::memcpy(out, w.data(), 128);
                                 },
                             .fill =
                                 [](Rng& rng, size_t, uint8_t* in) {
                                   const uint32_t v = uint32_t(rng());
                                   for (int l = 0; l < 32; ++l) std::memcpy(in + 4 * l, &v, 4);
                                 }}));
  // One warp writes, releases a flag; the other acquires it and reads.
  for (bool fences : {false, true})
    for (bool in_shared : {false, true})
      all.push_back(make_case(
          {.name = fmt::format("release_acquire.{}{}", in_shared ? "shared" : "global", fences ? ".fence" : ""),
           .family = "memory",
           .threads = 64,
           .per_item = 64,
           .in_bytes = 4,
           .out_bytes = 8,
           .body =
               [=](Place& p) {
                 auto& k = p.k;
                 auto pass = [&](auto flag, auto cells) {
                   k.when(k.thread() == 0u, [&] { store(flag, 0u); });
                   k.barrier();
                   k.when_else(
                       k.warp() == 0u,
                       [&] {
                         store(cells + k.lane(), load(p.in.as<uint32_t>()));
                         k.warp_sync();
                         k.when(k.lane() == 0u, [&] {
                           if (fences) {
                             k.fence(Order::acq_rel, Scope::gpu);
                             store_relaxed(flag, 1u);
                           } else {
                             store_release(flag, 1u);
                           }
                         });
                         store(p.out.as<uint32_t>().offset(1), 7u);
                       },
                       [&] {
                         auto seen = k.var(0u);
                         k.loop_while([&] { return seen.get() == 0u; },
                                      [&] { seen = fences ? load_relaxed(flag) : load_acquire(flag); });
                         if (fences) k.fence(Order::acq_rel, Scope::gpu);
                         store(p.out.as<uint32_t>().offset(1),
                               load(p.in.as<uint32_t>()) + load(cells + (31u - k.lane())));
                       });
                   // the flag of the global case is the first word of thread 32's output
                   k.barrier();
                   store(p.out.as<uint32_t>(), 9u);
                 };
                 if (in_shared) {
                   pass(k.shared<uint32_t>(1), k.shared<uint32_t>(32));
                 } else {
                   Global<uint32_t> item{p.out.address() - widen(k.thread() * 8u)};
                   // 32 words for the data: the first words of the outputs of threads 0 to 31 (two words apart)
                   Global<uint64_t> pairs = item.as<uint64_t>();
                   struct Cells {
                     Global<uint64_t> at;
                     Global<uint32_t> operator+(U32 i) const { return (at + i).as<uint32_t>(); }
                   };
                   pass(item.offset(64), Cells{pairs});
                 }
               },
           .reference =
               [](const uint8_t* in, uint8_t* out) {
                 uint32_t w[64], r[128];
                 std::memcpy(w, in, 256);
                 for (uint32_t t = 0; t < 64; ++t) {
                   r[2 * t] = 9;
                   r[2 * t + 1] = t < 32 ? 7 : w[t] + w[63 - t];
                 }
                 std::memcpy(out, r, 512);
               }}));
}

}  // namespace

void add_atomics(std::vector<Case>& all) {
  using A = Atomic;
  atomic_cases<uint32_t>(all, "u32",
                         {A::add, A::min, A::max, A::bit_and, A::bit_or, A::bit_xor, A::exch, A::cas, A::inc, A::dec});
  atomic_cases<int32_t>(all, "s32", {A::add, A::min, A::max});
  atomic_cases<uint64_t>(all, "u64", {A::add, A::min, A::max, A::bit_and, A::bit_or, A::bit_xor, A::exch, A::cas});
  atomic_cases<int64_t>(all, "s64", {A::min, A::max});
  atomic_cases<float>(all, "f32", {A::add});
  atomic_cases<double>(all, "f64", {A::add});
  atomic_cases<f16x2>(all, "f16x2", {A::add});
  atomic_cases<bf16x2>(all, "bf16x2", {A::add});
  for (Order o : {Order::relaxed, Order::acquire, Order::release, Order::acq_rel})
    for (Scope s : scopes)
      for (bool in_shared : {false, true}) {
        const std::string suffix = fmt::format(".{}.{}", spell(o), spell(s));
        atomic_own<uint32_t>(all, A::add, "u32", in_shared, false, {o, s}, suffix);
        atomic_own<uint64_t>(all, A::cas, "b64", in_shared, false, {o, s}, suffix);
        if (o == Order::relaxed || o == Order::release)
          atomic_own<uint32_t>(all, A::max, "u32", in_shared, true, {o, s}, suffix);
      }
  atomic_protocols(all);
}

}  // namespace heddle::ptx::cases

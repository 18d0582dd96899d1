// Cases of loads, stores and atomics: every width and vector form in every state space, every way to treat the caches
// and other threads. An item is what one thread (or one warp, where they meet at an address) reads and writes.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {
namespace {

// f.operator()<T>(name) for every type that memory can hold.
void each_type(auto f) {
  f.template operator()<uint8_t>("u8");
  f.template operator()<int8_t>("s8");
  f.template operator()<uint16_t>("u16");
  f.template operator()<int16_t>("s16");
  f.template operator()<uint32_t>("u32");
  f.template operator()<int32_t>("s32");
  f.template operator()<uint64_t>("u64");
  f.template operator()<int64_t>("s64");
  f.template operator()<heddle::f16>("f16");
  f.template operator()<heddle::bf16>("bf16");
  f.template operator()<f16x2>("f16x2");
  f.template operator()<bf16x2>("bf16x2");
  f.template operator()<float>("f32");
  f.template operator()<double>("f64");
  f.template operator()<tf32>("tf32");
  f.template operator()<e4m3x2>("e4m3x2");
  f.template operator()<e5m2x2>("e5m2x2");
}
// ... and every number of values in one access.
void each_access(auto f) {
  each_type([&]<class T>(const char* type) {
    f.template operator()<T, 1>(std::string(type));
    f.template operator()<T, 2>(fmt::format("v2.{}", type));
    if constexpr (sizeof(T) <= 4) f.template operator()<T, 4>(fmt::format("v4.{}", type));
  });
}

template <size_t N, class T, Space S>
Vec<Loaded<T>, N> load_n(Ptr<T, S> p, Access how = {}) {
  if constexpr (N == 1)
    return {load(p, how)};
  else
    return load_vec<N>(p, how);
}
template <class T, Space S, size_t N>
void store_n(Ptr<T, S> p, const Vec<Loaded<T>, N>& v, Access how = {}) {
  if constexpr (N == 1)
    store(p, v[0], how);
  else
    store_vec(p, v, how);
}
// N registers, one by one, at the thread's place in the output; 8-bit values as the 32 bits they are widened to.
template <class T, size_t N>
void put(Place& p, const Vec<Loaded<T>, N>& v) {
  for (size_t i = 0; i < N; ++i) store(p.out.as<Loaded<T>>().offset(int64_t(i)), v[i]);
}
template <class T, size_t N>
Vec<Loaded<T>, N> get(Place& p) {
  Vec<Loaded<T>, N> v;
  for (size_t i = 0; i < N; ++i) v[i] = load(p.in.as<Loaded<T>>().offset(int64_t(i)));
  return v;
}

// What a load of N values of T leaves in the registers, and what a store of such registers leaves in memory.
template <class T, size_t N>
void loaded(const uint8_t* memory, uint8_t* registers) {
  for (size_t i = 0; i < N; ++i) {
    T v;
    std::memcpy(&v, memory + i * sizeof(T), sizeof(T));
    const Loaded<T> r = Loaded<T>(v);
    std::memcpy(registers + i * sizeof r, &r, sizeof r);
  }
}
template <class T, size_t N>
void stored(const uint8_t* registers, uint8_t* memory) {
  for (size_t i = 0; i < N; ++i) std::memcpy(memory + i * sizeof(T), registers + i * sizeof(Loaded<T>), sizeof(T));
}

// --- global -------------------------------------------------------------------------------------------------------
// How an access treats the caches: Access holds a register for the policy, which only exists once a kernel is built.
struct How {
  std::string name;
  Access access{};
  bool policy = false;
  L2 evict{};

  Access in(Code& k) const {
    Access a = access;
    if (policy) a.policy = k.cache_policy(evict);
    return a;
  }
};

template <class T, size_t N>
void global_load(std::vector<Case>& all, const std::string& type, const How& how = {}) {
  all.push_back(make_case({.name = fmt::format("ld{}.global.{}", how.name, type),
                           .family = "memory",
                           .in_bytes = N * sizeof(T),
                           .out_bytes = N * sizeof(Loaded<T>),
                           .body = [=](Place& p) { put<T, N>(p, load_n<N>(p.in.as<T>(), how.in(p.k))); },
                           .reference = loaded<T, N>}));
}
template <class T, size_t N>
void global_store(std::vector<Case>& all, const std::string& type, const How& how = {}) {
  all.push_back(make_case({.name = fmt::format("st{}.global.{}", how.name, type),
                           .family = "memory",
                           .in_bytes = N * sizeof(Loaded<T>),
                           .out_bytes = N * sizeof(T),
                           .body = [=](Place& p) { store_n(p.out.as<T>(), get<T, N>(p), how.in(p.k)); },
                           .reference = stored<T, N>}));
}

const char* name(L1 l) {
  const char* const names[] = {"normal", "no_allocate", "evict_first", "evict_last", "evict_unchanged"};
  return names[size_t(l)];
}
const char* name(L2 l) {
  const char* const names[] = {"normal", "evict_first", "evict_last", "evict_normal"};
  return names[size_t(l)];
}
const char* name(Order o) {
  const char* const names[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc", "volatile"};
  return names[size_t(o)];
}
const char* name(Scope s) {
  const char* const names[] = {"none", "cta", "cluster", "gpu", "sys"};
  return names[size_t(s)];
}
constexpr Scope scopes[] = {Scope::cta, Scope::cluster, Scope::gpu, Scope::sys};

std::vector<How> hints(bool load) {
  std::vector<How> all;
  for (bool nc : {false, true}) {
    if (nc && !load) break;
    const std::string base = nc ? ".nc" : "";
    if (nc) all.push_back({base, {.nc = true}});
    for (L1 l1 : {L1::no_allocate, L1::evict_first, L1::evict_last, L1::evict_unchanged})
      all.push_back({fmt::format("{}.L1_{}", base, name(l1)), {.nc = nc, .l1 = l1}});
    for (L2 evict : {L2::evict_first, L2::evict_last, L2::evict_normal})
      all.push_back({fmt::format("{}.policy_{}", base, name(evict)), {.nc = nc}, true, evict});
    if (!load) continue;
    for (uint16_t bytes : {64, 128, 256})
      all.push_back({fmt::format("{}.L2_{}B", base, bytes), {.nc = nc, .l2_prefetch = bytes}});
    all.push_back({base + ".L1_no_allocate.L2_256B.policy_evict_first",
                   {.nc = nc, .l1 = L1::no_allocate, .l2_prefetch = 256},
                   true,
                   L2::evict_first});
  }
  return all;
}
std::vector<How> orders(bool load) {
  std::vector<How> all{{".volatile", {.order = Order::is_volatile}}};
  for (Order o : {Order::relaxed, load ? Order::acquire : Order::release})
    for (Scope s : scopes) all.push_back({fmt::format(".{}.{}", name(o), name(s)), {.order = o, .scope = s}});
  return all;
}

void global_cases(std::vector<Case>& all) {
  each_access([&]<class T, size_t N>(const std::string& type) {
    global_load<T, N>(all, type);
    global_store<T, N>(all, type);
  });
  for (bool ordered : {false, true}) {
    for (auto& how : ordered ? orders(true) : hints(true)) {
      global_load<uint32_t, 1>(all, "u32", how);
      global_load<uint32_t, 4>(all, "v4.u32", how);
      global_load<int8_t, 1>(all, "s8", how);
      global_load<uint64_t, 2>(all, "v2.u64", how);
      global_load<heddle::f16, 1>(all, "f16", how);
      global_load<float, 2>(all, "v2.f32", how);
    }
    for (auto& how : ordered ? orders(false) : hints(false)) {
      global_store<uint32_t, 1>(all, "u32", how);
      global_store<uint32_t, 4>(all, "v4.u32", how);
      global_store<uint8_t, 1>(all, "u8", how);
      global_store<uint64_t, 2>(all, "v2.u64", how);
      global_store<heddle::f16, 1>(all, "f16", how);
      global_store<float, 2>(all, "v2.f32", how);
    }
  }
  // Positive and negative constant offsets, and an index in each width.
  all.push_back(make_case({.name = "ld.global.offsets",
                           .family = "memory",
                           .in_bytes = 32,
                           .out_bytes = 16,
                           .body =
                               [](Place& p) {
                                 auto middle = p.in.as<uint32_t>() + (load(p.in.as<uint32_t>()) & 1u) + 3u;  // 3 or 4
                                 U64 wide = widen(load(p.in.as<uint32_t>()) & 1u);
                                 store(p.out.as<uint32_t>(), load(middle.offset(-3)));
                                 store(p.out.as<uint32_t>().offset(1), load(middle.offset(3)));
                                 store(p.out.as<uint32_t>().offset(2), load(p.in.as<uint32_t>() + wide));
                                 store(p.out.as<uint32_t>().offset(3),
                                       load((p.in.as<uint64_t>() + wide).as<uint32_t>().offset(1)));
                               },
                           .reference =
                               [](const uint8_t* in, uint8_t* out) {
                                 uint32_t w[8], r[4];
                                 std::memcpy(w, in, 32);
                                 const uint32_t b = w[0] & 1;
                                 r[0] = w[b], r[1] = w[6 + b], r[2] = w[b], r[3] = w[2 * b + 1];
                                 std::memcpy(out, r, 16);
                               }}));
}

// --- shared -------------------------------------------------------------------------------------------------------
constexpr uint32_t slot = 16;  // bytes of shared memory per thread

template <class T, size_t N>
void shared_load(std::vector<Case>& all, const std::string& type, const How& how = {}) {
  all.push_back(make_case({.name = fmt::format("ld{}.shared.{}", how.name, type),
                           .family = "memory",
                           .in_bytes = slot,
                           .out_bytes = N * sizeof(Loaded<T>),
                           .body =
                               [=](Place& p) {
                                 auto mine = p.k.shared<uint8_t>(128 * slot) + p.k.thread() * slot;
                                 for (int i = 0; i < 4; ++i)
                                   store(mine.as<uint32_t>().offset(i), load(p.in.as<uint32_t>().offset(i)));
                                 put<T, N>(p, load_n<N>(mine.as<T>(), how.in(p.k)));
                               },
                           .reference = loaded<T, N>}));
}
template <class T, size_t N>
void shared_store(std::vector<Case>& all, const std::string& type, const How& how = {}) {
  all.push_back(make_case({.name = fmt::format("st{}.shared.{}", how.name, type),
                           .family = "memory",
                           .in_bytes = N * sizeof(Loaded<T>),
                           .out_bytes = N * sizeof(T),
                           .body =
                               [=](Place& p) {
                                 auto mine = p.k.shared<uint8_t>(128 * slot) + p.k.thread() * slot;
                                 store_n(mine.as<T>(), get<T, N>(p), how.in(p.k));
                                 for (size_t i = 0; i < N * sizeof(T); ++i)
                                   store(p.out.offset(int64_t(i)), load(mine.offset(int64_t(i))));
                               },
                           .reference = stored<T, N>}));
}

// The block's bytes reversed through shared memory of another kind: 128 threads, 16 bytes each.
void reversed(const uint8_t* in, uint8_t* out) {
  for (uint32_t t = 0; t < 128; ++t) std::memcpy(out + t * slot, in + (127 - t) * slot, slot);
}
void reverse_through(Place& p, Shared<uint8_t> tile) {
  store_vec((tile + p.k.thread() * slot).as<uint32_t>(), load_vec<4>(p.in.as<uint32_t>()));
  p.k.barrier();
  store_vec(p.out.as<uint32_t>(), load_vec<4>((tile + (127u - p.k.thread()) * slot).as<uint32_t>()));
}

void shared_cases(std::vector<Case>& all) {
  each_access([&]<class T, size_t N>(const std::string& type) {
    shared_load<T, N>(all, type);
    shared_store<T, N>(all, type);
  });
  for (auto& how : orders(true)) {
    shared_load<uint32_t, 1>(all, "u32", how);
    shared_load<uint64_t, 2>(all, "v2.u64", how);
  }
  for (auto& how : orders(false)) {
    shared_store<uint32_t, 1>(all, "u32", how);
    shared_store<uint64_t, 2>(all, "v2.u64", how);
  }
  auto add = [&](const char* what, uint32_t dynamic, std::function<void(Place&)> body) {
    all.push_back(make_case({.name = what,
                             .family = "memory",
                             .per_item = 128,
                             .in_bytes = slot,
                             .out_bytes = slot,
                             .body = body,
                             .reference = reversed,
                             .dynamic_shared_bytes = dynamic}));
  };
  add("shared.static", 0, [](Place& p) { reverse_through(p, p.k.shared<uint8_t>(128 * slot)); });
  add("shared.dynamic", 128 * slot, [](Place& p) { reverse_through(p, p.k.dynamic_shared<uint8_t>()); });
  // a part of known size before it, of an odd number of bytes: neither may touch the other
  add("shared.both", 128 * slot, [](Place& p) {
    auto fixed = p.k.shared<uint8_t>(128 + 9);
    auto tile = p.k.dynamic_shared<uint8_t>();
    store(fixed + p.k.thread(), p.k.thread() + 1u);
    p.k.when(p.k.thread() < 9u, [&] { store((fixed + p.k.thread()).offset(128), p.k.thread() + 200u); });
    reverse_through(p, tile);
    p.k.when(load(fixed + (p.k.thread() ^ 1u)) != (p.k.thread() ^ 1u) + 1u, [&] { p.k.trap(); });
    p.k.when(p.k.thread() < 9u, [&] {
      p.k.when(load((fixed + (8u - p.k.thread())).offset(128)) != 208u - p.k.thread(), [&] { p.k.trap(); });
    });
  });
  // more than the 48 KB that need no asking
  add("shared.64KB", 0,
      [](Place& p) { reverse_through(p, p.k.shared<uint8_t>(64 * 1024).offset(64 * 1024 - 128 * slot)); });
  add("shared.dynamic.96KB", 96 * 1024,
      [](Place& p) { reverse_through(p, p.k.dynamic_shared<uint8_t>().offset(96 * 1024 - 128 * slot)); });
  add("shared.aligned.1024", 0, [](Place& p) {
    p.k.shared<uint8_t>(3);
    auto tile = p.k.shared<uint8_t>(128 * slot, 1024);
    p.k.when((tile.address() & 1023u) != 0u, [&] { p.k.trap(); });
    reverse_through(p, tile);
  });
}

// --- constant and param -------------------------------------------------------------------------------------------
template <class T, size_t N>
void constant_load(std::vector<Case>& all, const std::string& type) {
  constexpr uint32_t entries = 61;  // not a power of two; every thread reads where its input says
  std::vector<T> table(entries * N);
  Rng rng(sizeof(T) * 8 + N);
  random_bytes(rng, table.data(), table.size() * sizeof(T));
  all.push_back(
      make_case({.name = fmt::format("ld.const.{}", type),
                 .family = "memory",
                 .in_bytes = 4,
                 .out_bytes = N * sizeof(Loaded<T>),
                 .body =
                     [=](Place& p) {
                       auto other = p.k.constants(std::vector<uint8_t>{1, 2, 3});  // the table does not begin at 0
                       auto at = p.k.constants(table);
                       U32 entry = load(p.in.as<uint32_t>()) % entries;
                       p.k.when(load(other.offset(2)) != 3u, [&] { p.k.trap(); });
                       put<T, N>(p, load_n<N>(at + entry * uint32_t(N)));
                     },
                 .reference =
                     [=](const uint8_t* in, uint8_t* out) {
                       uint32_t index;
                       std::memcpy(&index, in, 4);
                       loaded<T, N>(reinterpret_cast<const uint8_t*>(&table[index % entries * N]), out);
                     }}));
}

// The first 16 bytes of the arguments are the addresses of the input and the output. Each case reads them with another
// type, puts them together again and uses them.
template <class T>
U64 widened(Val<Loaded<T>> v) {
  if constexpr (sizeof(T) == 1 && std::is_signed_v<T>)
    return to<uint64_t>(v) & 0xffull;
  else if constexpr (sizeof(T) == 1)
    return widen(v);
  else if constexpr (sizeof(T) == 2)
    return to<uint64_t>(bitcast<uint16_t>(v));
  else if constexpr (sizeof(T) == 4)
    return widen(bitcast<uint32_t>(v));
  else
    return bitcast<uint64_t>(v);
}
template <class T, size_t N>
void param_load(std::vector<Case>& all, const std::string& type) {
  Case c;
  c.name = fmt::format("ld.param.{}", type), c.family = "memory";
  c.in_bytes = c.out_bytes = 4;
  c.fill = [](Rng& rng, size_t, uint8_t* in) { random_bytes(rng, in, 4); };
  c.reference = [](const uint8_t* in, uint8_t* out) { std::memcpy(out, in, 4); };
  c.build = [] {
    Builder<Args> k("item", 128);
    Ptr<T, Space::param> args{{&k, immediate(uint64_t(0))}};
    U64 address[2];
    for (size_t which = 0; which < 2; ++which) {
      U64 whole = k.constant(uint64_t(0));
      for (size_t at = 0; at < 8 / sizeof(T); at += N) {
        if (N * sizeof(T) == 16 && which == 1) {  // both in one access
          whole = widened<T>(load_n<N>(args)[N / 2]);
          if constexpr (sizeof(T) == 4) whole = whole | widened<T>(load_n<N>(args)[3]) << 32u;
          break;
        }
        auto part = load_n<N>(args.offset(int64_t(which * 8 / sizeof(T) + at)));
        for (size_t i = 0; i < N && at + i < 8 / sizeof(T); ++i)
          whole = whole | widened<T>(part[i]) << uint32_t((at + i) * sizeof(T) * 8);
      }
      address[which] = whole;
    }
    U32 index = k.block_id() * 128u + k.thread();
    k.when(index < k.arg(&Args::items),
           [&] { store(Global<uint32_t>{address[1]} + index, load(Global<uint32_t>{address[0]} + index)); });
    return k.finish();
  };
  all.push_back(c);
}

// --- atomics ------------------------------------------------------------------------------------------------------
const char* name(Atomic a) {
  const char* const names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  return names[size_t(a)];
}
// One rounding to f32 from exact halves is the sum: the f32 sum of two f16 or bf16 may round, so use double.
template <class H, class F>
uint32_t add_pairs(uint32_t a, uint32_t b, F encode) {
  uint32_t r = 0;
  for (int half = 0; half < 32; half += 16)
    r |= uint32_t(encode(double(to_f32(H{uint16_t(a >> half)})) + double(to_f32(H{uint16_t(b >> half)}))).bits) << half;
  return r;
}
template <class T>
T flushed(T x) {
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
    if (index < 25) v[0] = T(special[index / 5]), v[1] = T(special[index % 5]);
    if (index >= 25 && index % 3 == 0) v[1] = T(U(v[0]) + U(rng() % 3) - 1);
  } else if constexpr (std::is_floating_point_v<T>) {
    // no NaN: which one comes out is not said
    for (int i = 0; i < 3; ++i) v[i] = T(std::ldexp(double(int64_t(rng())), int(rng() % 40) - 80));
    using Limits = std::numeric_limits<T>;
    const T special[] = {T(0),          T(-0.0),       T(INFINITY),        T(1),
                         Limits::max(), Limits::min(), -Limits::min() / 2, Limits::denorm_min()};
    if (index < 64) v[0] = special[index / 8], v[1] = special[index % 8];
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
                                               name(what), type, suffix),
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
                                 auto kept = [&](T x) { return flushes ? flushed(x) : x; };
                                 r[0] = v[0], r[1] = kept(after(what, kept(v[0]), kept(v[1]), v[2]));
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
  all.push_back(make_case(
      {.name = fmt::format("{}.{}.{}.{}.warp", red ? "red" : "atom", in_shared ? "shared" : "global", name(what), type),
       .family = "memory",
       .per_item = 32,
       .in_bytes = sizeof(T),
       .out_bytes = sizeof(T),
       .body =
           [=](Place& p) {
             // lane 0's input is where memory begins; the others act on it. In the global case the cell is lane 0's
             // output.
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
               if constexpr (whole) x = what == Atomic::inc || what == Atomic::dec ? T(limit) : T(rng());
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
                 for (uint32_t t = 0; t < 64; ++t) r[2 * t] = 9, r[2 * t + 1] = t < 32 ? 7 : w[t] + w[63 - t];
                 std::memcpy(out, r, 512);
               }}));
}

// --- hints --------------------------------------------------------------------------------------------------------
// Copies a word with something around it that changes no value.
void memory_no_ops(std::vector<Case>& all) {
  auto add = [&](const std::string& what, std::function<void(Place&)> before) {
    all.push_back(make_case({.name = what,
                             .family = "memory",
                             .in_bytes = 4,
                             .out_bytes = 4,
                             .body =
                                 [=](Place& p) {
                                   before(p);
                                   store(p.out.as<uint32_t>(), load(p.in.as<uint32_t>()));
                                   before(p);
                                 },
                             .reference = [](const uint8_t* in, uint8_t* out) { std::memcpy(out, in, 4); }}));
  };
  for (uint8_t level : {1, 2}) add(fmt::format("prefetch.L{}", level), [=](Place& p) { prefetch(p.in, level); });
  for (Order o : {Order::acq_rel, Order::seq_cst})
    for (Scope s : scopes) add(fmt::format("fence.{}.{}", name(o), name(s)), [=](Place& p) { p.k.fence(o, s); });
}

}  // namespace

void add_memory(std::vector<Case>& all) {
  global_cases(all);
  shared_cases(all);
  each_access([&]<class T, size_t N>(const std::string& type) {
    constant_load<T, N>(all, type);
    param_load<T, N>(all, type);
  });
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
        const std::string suffix = fmt::format(".{}.{}", name(o), name(s));
        atomic_own<uint32_t>(all, A::add, "u32", in_shared, false, {o, s}, suffix);
        atomic_own<uint64_t>(all, A::cas, "b64", in_shared, false, {o, s}, suffix);
        if (o == Order::relaxed || o == Order::release)
          atomic_own<uint32_t>(all, A::max, "u32", in_shared, true, {o, s}, suffix);
      }
  atomic_protocols(all);
  memory_no_ops(all);
}

}  // namespace heddle::ptx::cases

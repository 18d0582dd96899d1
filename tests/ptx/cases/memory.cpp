// Cases of loads and stores in every space, by type, width, order and cache hint.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/ptx/cases/threads.h"

namespace heddle::ptx::cases {

void add_atomics(std::vector<Case>& all);  // atomics.cpp

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
void stored_values(const uint8_t* registers, uint8_t* memory) {
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
                           .reference = stored_values<T, N>}));
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
                                 r[0] = w[b];
                                 r[1] = w[6 + b];
                                 r[2] = w[b];
                                 r[3] = w[2 * b + 1];
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
                           .reference = stored_values<T, N>}));
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
  auto add = [&](const char* what, uint32_t dynamic, Callable<void(Place&)> body) {
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
  // static shared memory of an odd number of bytes before it: neither may touch the other
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
  // more than the 48 KB that a kernel has without opting in
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
  c.name = fmt::format("ld.param.{}", type);
  c.family = "memory";
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

// --- hints --------------------------------------------------------------------------------------------------------
// Copies a word with something around it that changes no value.
void memory_no_ops(std::vector<Case>& all) {
  auto add = [&](const std::string& what, Callable<void(Place&)> before) {
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
  add_atomics(all);
  memory_no_ops(all);
}

}  // namespace heddle::ptx::cases

// Loads, stores, atomics, fences and addresses.
#include <cmath>

#include "ptx/machine/cta.h"
#include "ptx/machine/numbers.h"

namespace heddle::ptx::machine {
namespace {

using Kind = Report::Kind;

// --- what releases publish and acquires learn, by address ---------------------------------------------------------
void publish_stores(Warp& w, uint32_t lane, uint64_t key) {
  ClockSum sum;
  sum.add(w.clock[lane], w.cta->cluster_thread(w, lane));
  ClockPtr& at = w.cta->cluster->published[key];
  at = join(at, sum.take());
}
void before_strong_write(Warp& w, uint32_t lane, uint64_t key, Order order) {
  if (!w.cta->engine->clocks) return;
  if (order == Order::release || order == Order::acq_rel || order == Order::seq_cst || w.clock[lane].fenced)
    publish_stores(w, lane, key);
}
void after_strong_read(Warp& w, uint32_t lane, uint64_t key, Order order) {
  if (!w.cta->engine->clocks) return;
  auto it = w.cta->cluster->published.find(key);
  if (it == w.cta->cluster->published.end()) return;
  ThreadClock& c = w.clock[lane];
  if (order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst)
    c.known = join(c.known, it->second);
  else
    c.seen = join(c.seen, it->second);
}
Strength strength(Order o) { return o == Order::weak ? Strength::weak : Strength::strong; }

// Where a lane's access goes, checked. `key` identifies the place for acquire and release.
struct Place {
  uint8_t* at;
  uint64_t key;
};
Place place(Warp& w, uint32_t lane, const Inst& i, uint64_t address, uint32_t bytes, bool writes, bool atomic = false) {
  if (i.space == Space::global) {
    w.cta->engine->events += writes && !atomic;
    const GlobalAccess what = writes ? GlobalAccess::write : i.nc ? GlobalAccess::read_only : GlobalAccess::read;
    return {w.cta->engine->global(w, lane, address, bytes, bytes, what), address};
  }
  auto [cta, offset] = locate(w, lane, uint32_t(address), bytes, bytes, i.space == Space::cluster);
  if (atomic)
    cta->shared.note_atomic(w, lane, offset, bytes);
  else if (writes)
    cta->shared.note_write(w, lane, offset, bytes, strength(i.order));
  else
    cta->shared.note_read(w, lane, offset, bytes, strength(i.order));
  w.cta->engine->events += writes && !atomic;  // an atomic counts when it changes something
  return {cta->shared.data.data() + offset, uint64_t(cta->rank) << 32 | offset};
}

uint64_t address(const Warp& w, const Step& s, uint32_t lane) {
  bool narrow = s.inst->space == Space::shared || s.inst->space == Space::cluster;
  return narrow ? uint64_t(uint32_t(w.read<uint32_t>(s.src[0])[lane] + uint32_t(s.inst->offset)))
                : w.read<uint64_t>(s.src[0])[lane] + uint64_t(s.inst->offset);
}

// Reads a value of memory type T at p into lane `i` of a row; 8-bit types are widened.
template <class T>
void into_row(Warp& w, uint32_t row, uint32_t lane, const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (sizeof(T) == 1)
    w.write<uint32_t>(row)[lane] = uint32_t(int32_t(v));
  else
    w.write<T>(row)[lane] = v;
}

template <class T>
void load_one(Warp& w, const Step& s) {
  const Inst& i = *s.inst;
  const uint32_t bytes = sizeof(T) * i.vec;
  if (i.space == Space::param || i.space == Space::constant) {
    const auto& bank = i.space == Space::param ? w.cta->engine->args : w.cta->engine->kernel.constants;
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (!w.active(lane)) continue;
      uint64_t at = w.read<uint64_t>(s.src[0])[lane] + uint64_t(i.offset);
      if (at + bytes > bank.size() || at + bytes < at)
        w.fail(Kind::out_of_bounds, lane,
               fmt::format("{} bytes at offset {} of {} bytes of {}", bytes, int64_t(at), bank.size(),
                           i.space == Space::param ? "arguments" : "constants"));
      if (at % bytes) w.fail(Kind::misaligned, lane, fmt::format("offset {} is not a multiple of {}", at, bytes));
      for (uint32_t v = 0; v < i.vec; ++v) into_row<T>(w, s.dst[v], lane, bank.data() + at + v * sizeof(T));
    }
    return;
  }
  bool strong = i.order != Order::weak;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!w.active(lane)) continue;
    Place p = place(w, lane, i, address(w, s, lane), bytes, false);
    for (uint32_t v = 0; v < i.vec; ++v) into_row<T>(w, s.dst[v], lane, p.at + v * sizeof(T));
    if (strong) after_strong_read(w, lane, p.key, i.order);
  }
}

template <class T>
void store_one(Warp& w, const Step& s) {
  const Inst& i = *s.inst;
  using Reg = std::conditional_t<sizeof(T) == 1, uint32_t, T>;
  const uint32_t bytes = sizeof(T) * i.vec;
  bool strong = i.order != Order::weak;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!w.active(lane)) continue;
    Place p = place(w, lane, i, address(w, s, lane), bytes, true);
    if (strong) before_strong_write(w, lane, p.key, i.order);
    for (uint32_t v = 0; v < i.vec; ++v) {
      T value = T(w.read<Reg>(s.src[1 + v])[lane]);
      std::memcpy(p.at + v * sizeof(T), &value, sizeof value);
    }
  }
}

template <class T>
T apply(Atomic what, T old, T v, T v2) {
  switch (what) {
    case Atomic::add:
      if constexpr (std::is_integral_v<T>)
        return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(v));  // wraps
      return T(old + v);
    case Atomic::min:
      return std::min(old, v);
    case Atomic::max:
      return std::max(old, v);
    case Atomic::exch:
      return v;
    case Atomic::cas:
      return old == v ? v2 : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (what) {
      case Atomic::bit_and:
        return T(old & v);
      case Atomic::bit_or:
        return T(old | v);
      case Atomic::bit_xor:
        return T(old ^ v);
      case Atomic::inc:
        return old >= v ? T(0) : T(old + 1);
      case Atomic::dec:
        return old == 0 || old > v ? v : T(old - 1);
      default:
        break;
    }
  }
  return old;
}
// Floating sums as the GPU makes them; f32 in global memory without subnormals.
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
template <class T>
T atomic_sum(Space space, T a, T b) {
  numbers::Add<Round::rn> add;
  if constexpr (std::is_same_v<T, float>)
    if (space == Space::global) return flushed(add(flushed(a), flushed(b)));
  return add(a, b);
}

template <class T>
void atomic_one(Warp& w, const Step& s) {
  const Inst& i = *s.inst;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!w.active(lane)) continue;
    Place p = place(w, lane, i, address(w, s, lane), sizeof(T), true, true);
    if (i.order != Order::weak) {
      after_strong_read(w, lane, p.key, i.order);
      before_strong_write(w, lane, p.key, i.order);
    }
    T old, v = w.read<T>(s.src[1])[lane], v2{};
    std::memcpy(&old, p.at, sizeof old);
    if (i.atomic == Atomic::cas) v2 = w.read<T>(s.src[2])[lane];
    T now;
    if constexpr (std::is_floating_point_v<T>)
      now = i.atomic == Atomic::add ? atomic_sum(i.space, old, v) : apply(i.atomic, old, v, v2);
    else
      now = apply(i.atomic, old, v, v2);
    w.cta->engine->events += std::memcmp(p.at, &now, sizeof now) != 0;
    std::memcpy(p.at, &now, sizeof now);
    if (i.op == Op::atom) w.write<T>(s.dst[0])[lane] = old;
  }
}
// f16x2 / bf16x2: add only.
template <class Half>
void atomic_pair(Warp& w, const Step& s) {
  const Inst& i = *s.inst;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!w.active(lane)) continue;
    Place p = place(w, lane, i, address(w, s, lane), 4, true, true);
    if (i.order != Order::weak) {
      after_strong_read(w, lane, p.key, i.order);
      before_strong_write(w, lane, p.key, i.order);
    }
    uint32_t old, v = w.read<uint32_t>(s.src[1])[lane], now = v;
    std::memcpy(&old, p.at, sizeof old);
    if (i.atomic == Atomic::add) {
      auto half = [&](uint32_t shift) {
        return numbers::Add<Round::rn>()(Half{uint16_t(old >> shift)}, Half{uint16_t(v >> shift)}).bits;
      };
      now = half(0) | uint32_t(half(16)) << 16;
    }
    w.cta->engine->events += std::memcmp(p.at, &now, sizeof now) != 0;
    std::memcpy(p.at, &now, sizeof now);
    if (i.op == Op::atom) w.write<uint32_t>(s.dst[0])[lane] = old;
  }
}

void no_work(Warp&, const Step&) {}

void fence(Warp& w, const Step&) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (w.active(lane)) {
      ThreadClock& c = w.clock[lane];
      c.known = join(c.known, c.seen);
      c.fenced = true;
    }
}
void fence_proxy(Warp& w, const Step&) {
  for (uint32_t lane = 0; lane < 32; ++lane)
    if (w.active(lane)) {
      ThreadClock& c = w.clock[lane];
      c.fence_known = c.known;
      c.fence_own = ++c.own;  // what it wrote so far has a lower count
    }
}

void shared_address(Warp& w, const Step& s) {
  uint32_t base = shared_base | w.cta->rank << shared_rank_shift;
  const uint32_t* at = w.read<uint32_t>(s.src[0]);
  each_lane<uint32_t>(w, s.dst[0], [&](uint32_t l) { return base + at[l]; });
}
void dynamic_shared_address(Warp& w, const Step& s) {
  uint32_t at = (shared_base | w.cta->rank << shared_rank_shift) + dynamic_shared_offset(w.cta->engine->kernel);
  each_lane<uint32_t>(w, s.dst[0], [&](uint32_t) { return at; });
}
void constant_address(Warp& w, const Step& s) {
  const uint64_t* at = w.read<uint64_t>(s.src[0]);
  each_lane<uint64_t>(w, s.dst[0], [&](uint32_t l) { return at[l]; });
}
void param_address(Warp& w, const Step& s) {
  const uint64_t* at = w.read<uint64_t>(s.src[0]);
  uint64_t base = uint64_t(reinterpret_cast<uintptr_t>(w.cta->engine->args.data()));
  each_lane<uint64_t>(w, s.dst[0], [&](uint32_t l) { return base + at[l]; });
}
void map_shared(Warp& w, const Step& s) {
  const uint32_t *a = w.read<uint32_t>(s.src[0]), *rank = w.read<uint32_t>(s.src[1]);
  for (uint32_t l = 0; l < 32; ++l)
    if (w.active(l) && rank[l] >= w.cta->cluster->blocks.size())
      w.fail(Kind::bad_operand, l, fmt::format("block {} of a cluster of {}", rank[l], w.cta->cluster->blocks.size()));
  each_lane<uint32_t>(
      w, s.dst[0], [&](uint32_t l) { return (a[l] & ((1u << shared_rank_shift) - 1)) | rank[l] << shared_rank_shift; });
}
void create_policy(Warp& w, const Step& s) {
  each_lane<uint64_t>(w, s.dst[0], [](uint32_t) { return uint64_t(0); });
}

template <template <class> class F>
Exec by_type(Type t) {
  switch (t) {
    case Type::u8:
      return F<uint8_t>::go;
    case Type::s8:
      return F<int8_t>::go;
    case Type::u16:
    case Type::f16:
    case Type::bf16:
    case Type::e4m3x2:
    case Type::e5m2x2:
      return F<uint16_t>::go;
    case Type::s16:
      return F<int16_t>::go;
    case Type::u32:
    case Type::f16x2:
    case Type::bf16x2:
    case Type::tf32:
      return F<uint32_t>::go;
    case Type::s32:
      return F<int32_t>::go;
    case Type::f32:
      return F<float>::go;
    case Type::u64:
      return F<uint64_t>::go;
    case Type::s64:
      return F<int64_t>::go;
    case Type::f64:
      return F<double>::go;
    default:
      return nullptr;
  }
}
template <class T>
struct LoadOf {
  static void go(Warp& w, const Step& s) { load_one<T>(w, s); }
};
template <class T>
struct StoreOf {
  static void go(Warp& w, const Step& s) { store_one<T>(w, s); }
};

Exec atomic_of(Type t) {
  switch (t) {
    case Type::u32:
      return atomic_one<uint32_t>;
    case Type::s32:
      return atomic_one<int32_t>;
    case Type::u64:
      return atomic_one<uint64_t>;
    case Type::s64:
      return atomic_one<int64_t>;
    case Type::f32:
      return atomic_one<float>;
    case Type::f64:
      return atomic_one<double>;
    case Type::f16x2:
      return atomic_pair<heddle::f16>;
    case Type::bf16x2:
      return atomic_pair<heddle::bf16>;
    default:
      return nullptr;
  }
}

}  // namespace

Exec memory(const Inst& i) {
  switch (i.op) {
    case Op::load:
      return by_type<LoadOf>(i.type);
    case Op::store:
      return by_type<StoreOf>(i.type);
    case Op::atom:
    case Op::red:
      return atomic_of(i.type);
    case Op::prefetch:
      return no_work;  // a hint: any address will do
    case Op::create_policy:
      return create_policy;
    case Op::fence:
      return fence;
    case Op::fence_proxy:
      return fence_proxy;
    case Op::fence_mbarrier_init:
      return no_work;
    case Op::shared_address:
      return shared_address;
    case Op::dynamic_shared_address:
      return dynamic_shared_address;
    case Op::constant_address:
      return constant_address;
    case Op::param_address:
      return param_address;
    case Op::map_shared:
      return map_shared;
    default:
      return nullptr;
  }
}

}  // namespace heddle::ptx::machine

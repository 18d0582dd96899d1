// Copies that run beside the threads: cp.async in groups, bulk and tensor copies that report to an mbarrier.
// What a copy brings may be read only after its group or its barrier was waited for.
#pragma once
#include "ptx/code.h"
#include "ptx/tensor_map.h"

namespace heddle::ptx {

// --- cp.async: each thread copies 4, 8 or 16 bytes ----------------------------------------------------------------
template <uint8_t Bytes, class T, class U>
void copy_async(Shared<T> to, Global<U> from, Loc l = Loc::current()) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  to.base.rec->append(
      {.op = Op::cp_async, .src = {to.address(l).op, from.address(l).op}, .bytes = Bytes, .through_l1 = Bytes < 16}, l);
}
// Copies the first `valid` bytes and fills the rest with zeros; valid 0 reads nothing.
template <uint8_t Bytes, class T, class U>
void copy_async(Shared<T> to, Global<U> from, Arg<uint32_t> valid) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  to.base.rec->append({.op = Op::cp_async,
                       .src = {to.address(valid.loc).op, from.address(valid.loc).op, valid.op},
                       .bytes = Bytes,
                       .through_l1 = Bytes < 16},
                      valid.loc);
}
inline void copy_commit(Code& k, Loc l = Loc::current()) { k.append({.op = Op::cp_async_commit}, l); }
// Waits until at most `remaining` of this thread's groups are under way.
inline void copy_wait(Code& k, uint32_t remaining, Loc l = Loc::current()) {
  k.append({.op = Op::cp_async_wait, .src = {immediate(remaining)}}, l);
}

// --- mbarrier: a counter of arrivals and bytes in shared memory ---------------------------------------------------
// Each phase ends when the expected arrivals came and all expected bytes landed; parity 0 waits for the first phase.
struct Mbarrier {
  Shared<uint64_t> at;

  void init(Arg<uint32_t> arrivals) {
    emit({.op = Op::mbarrier_init, .src = {addr(arrivals.loc), arrivals.op}}, arrivals.loc);
  }
  void invalidate(Loc l = Loc::current()) { emit({.op = Op::mbarrier_inval, .src = {addr(l)}}, l); }
  void arrive(Loc l = Loc::current()) {
    emit({.op = Op::mbarrier_arrive, .src = {addr(l)}, .space = Space::shared}, l);
  }
  void arrive(Arg<uint32_t> count) {
    emit({.op = Op::mbarrier_arrive, .src = {addr(count.loc), count.op}, .space = Space::shared}, count.loc);
  }
  void expect_bytes(Arg<uint32_t> bytes) {
    emit({.op = Op::mbarrier_expect, .src = {addr(bytes.loc), bytes.op}}, bytes.loc);
  }
  void arrive_expect_bytes(Arg<uint32_t> bytes) {
    emit({.op = Op::mbarrier_arrive_expect, .src = {addr(bytes.loc), bytes.op}, .space = Space::shared}, bytes.loc);
  }
  // Arrives when all cp.async of this thread so far have landed. noinc: the arrival is among those init counted.
  void arrive_after_copies(bool noinc = true, Loc l = Loc::current()) {
    emit({.op = Op::cp_async_mbarrier, .src = {addr(l)}, .noinc = noinc}, l);
  }
  Pred test(Arg<uint32_t> parity) { return poll(Op::mbarrier_test, parity); }
  Pred try_wait(Arg<uint32_t> parity) { return poll(Op::mbarrier_try, parity); }
  // Waits until the phase of this parity has ended.
  void wait(Code& k, Arg<uint32_t> parity) {
    k.loop_while([&] { return !try_wait(parity); }, [] {}, parity.loc);
  }
  // The same barrier in another block of the cluster, to arrive on.
  struct Remote {
    ClusterShared<uint64_t> at;
    void arrive(Loc l = Loc::current()) {
      at.base.rec->append({.op = Op::mbarrier_arrive, .src = {at.address(l).op}, .space = Space::cluster}, l);
    }
    void arrive_expect_bytes(Arg<uint32_t> bytes) {
      at.base.rec->append(
          {.op = Op::mbarrier_arrive_expect, .src = {at.address(bytes.loc).op, bytes.op}, .space = Space::cluster},
          bytes.loc);
    }
  };
  Remote in_block(Arg<uint32_t> rank);

  Operand addr(Loc l) const { return at.address(l).op; }

 private:
  void emit(Inst inst, Loc l) { at.base.rec->append(std::move(inst), l); }
  Pred poll(Op op, Arg<uint32_t> parity) {
    Recorder& r = *at.base.rec;
    return {&r, r.emit({.op = op, .type = Type::pred, .src = {addr(parity.loc), parity.op}}, Type::pred, parity.loc)};
  }
};

// The same address in the shared memory of block `rank` of the cluster.
template <class T>
ClusterShared<T> in_block(Shared<T> p, Arg<uint32_t> rank) {
  Recorder& r = *p.base.rec;
  return {{&r, r.emit({.op = Op::map_shared, .type = Type::u32, .src = {p.base.op, rank.op}}, Type::u32, rank.loc)},
          p.bytes};
}
inline Mbarrier::Remote Mbarrier::in_block(Arg<uint32_t> rank) { return {ptx::in_block(at, rank)}; }

inline Mbarrier mbarrier(Code& k, Loc l = Loc::current()) { return {k.shared<uint64_t>(1, 8, l)}; }
inline std::vector<Mbarrier> mbarriers(Code& k, uint32_t n, Loc l = Loc::current()) {
  auto all = k.shared<uint64_t>(n, 8, l);
  std::vector<Mbarrier> v;
  for (uint32_t i = 0; i < n; ++i) v.push_back({all.offset(i)});
  return v;
}
// After init, before another block or the copy engine uses the barrier.
inline void fence_mbarrier_init(Code& k, Loc l = Loc::current()) { k.append({.op = Op::fence_mbarrier_init}, l); }
// Between ordinary writes to shared memory and a copy engine or matrix unit that reads them (and the reverse).
inline void fence_async_shared(Code& k, Loc l = Loc::current()) {
  k.append({.op = Op::fence_proxy, .space = Space::shared}, l);
}
inline void fence_async_global(Code& k, Loc l = Loc::current()) {
  k.append({.op = Op::fence_proxy, .space = Space::global}, l);
}
inline void fence_async(Code& k, Loc l = Loc::current()) {
  k.append({.op = Op::fence_proxy, .space = Space::param}, l);
}

// --- bulk copies: one thread starts a copy of many bytes (multiple of 16, 16-byte aligned) ------------------------
template <class T, class U>
void bulk_load(Shared<T> to, Global<U> from, Arg<uint32_t> bytes, const Mbarrier& done, U64 policy = {}) {
  Loc l = bytes.loc;
  Inst inst{.op = Op::bulk_load, .src = {to.address(l).op, from.address(l).op, bytes.op, done.addr(l)}};
  if (policy.rec) {
    inst.src.push_back(policy.op);
    inst.policy = true;
  }
  to.base.rec->append(std::move(inst), l);
}
template <class T, class U>
void bulk_store(Global<T> to, Shared<U> from, Arg<uint32_t> bytes) {
  Loc l = bytes.loc;
  to.base.rec->append({.op = Op::bulk_store, .src = {to.address(l).op, from.address(l).op, bytes.op}}, l);
}
// Into the shared memory of another block of the cluster; `done` is a barrier of that block.
template <class T, class U>
void bulk_copy(ClusterShared<T> to, Shared<U> from, Arg<uint32_t> bytes, const Mbarrier::Remote& done) {
  Loc l = bytes.loc;
  to.base.rec->append(
      {.op = Op::bulk_shared, .src = {to.address(l).op, from.address(l).op, bytes.op, done.at.address(l).op}}, l);
}
inline void bulk_commit(Code& k, Loc l = Loc::current()) { k.append({.op = Op::bulk_commit}, l); }
// Waits until at most `remaining` groups of stores are under way; `read`: only until their sources may be reused.
inline void bulk_wait(Code& k, uint32_t remaining, bool read = false, Loc l = Loc::current()) {
  k.append({.op = Op::bulk_wait, .src = {immediate(remaining)}, .read = read}, l);
}

// --- tensor copies: a box of a tensor, by coordinates; the first one a multiple of 16 bytes
// -------------------------------------------------------------
template <class T, size_t Rank>
void tensor_load(Shared<T> to, U64 map, const Vec<int32_t, Rank>& at, const Mbarrier& done, Loc l = Loc::current()) {
  static_assert(Rank >= 1 && Rank <= 5);
  Inst inst{.op = Op::tensor_load, .src = {to.address(l).op, map.op, done.addr(l)}};
  for (auto& c : at) inst.src.push_back(c.op);
  map.rec->append(std::move(inst), l);
}
template <class T, size_t Rank>
void tensor_store(U64 map, Shared<T> from, const Vec<int32_t, Rank>& at, Loc l = Loc::current()) {
  static_assert(Rank >= 1 && Rank <= 5);
  Inst inst{.op = Op::tensor_store, .src = {map.op, from.address(l).op}};
  for (auto& c : at) inst.src.push_back(c.op);
  map.rec->append(std::move(inst), l);
}
inline void tensor_prefetch(U64 map, Loc l = Loc::current()) {
  map.rec->append({.op = Op::tensor_prefetch, .src = {map.op}}, l);
}

}  // namespace heddle::ptx

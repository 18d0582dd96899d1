// The kernel under construction, without its argument list: special registers, control flow, shared memory,
// barriers and everything else that needs no operand. A helper that emits code takes a `Code&`.
#pragma once
#include "ptx/memory.h"

namespace heddle::ptx {

struct Code : Recorder {
  // --- where am I -------------------------------------------------------------------------------------------------
  U32 thread(Loc l = Loc::current()) { return special(Special::tid_x, l); }
  U32 block_id(Loc l = Loc::current()) { return special(Special::ctaid_x, l); }
  U32 block_y(Loc l = Loc::current()) { return special(Special::ctaid_y, l); }
  U32 block_z(Loc l = Loc::current()) { return special(Special::ctaid_z, l); }
  U32 grid_x(Loc l = Loc::current()) { return special(Special::nctaid_x, l); }
  U32 lane(Loc l = Loc::current()) { return special(Special::lane, l); }
  U32 warp(Loc l = Loc::current()) { return special(Special::warp, l); }
  U32 group(Loc l = Loc::current()) { return special(Special::group, l); }  // of 4 warps
  U32 cluster_rank(Loc l = Loc::current()) { return special(Special::cluster_rank, l); }
  U32 special(Special s, Loc l = Loc::current()) { return {this, emit_special(s, Type::u32, l)}; }
  U64 clock(Loc l = Loc::current()) { return {this, emit_special(Special::clock, Type::u64, l)}; }
  U64 globaltimer(Loc l = Loc::current()) { return {this, emit_special(Special::globaltimer, Type::u64, l)}; }
  uint32_t threads() const { return kernel.threads(); }
  uint32_t warps() const { return kernel.threads() / 32; }

  // --- values -----------------------------------------------------------------------------------------------------
  template <class T>
  Val<T> constant(T v, Loc l = Loc::current()) {
    return detail::constant(this, v, l);
  }
  template <class T>
  Var<T> var(T init, Loc l = Loc::current()) {
    return Var<T>(*this, Arg<T>(init, l));
  }
  template <class T>
  Var<T> var(Val<T> init, Loc l = Loc::current()) {
    return Var<T>(*this, Arg<T>(init, l));
  }
  // A promise that v is the same across the block (or group, warp, ...), where the verifier cannot see it: a length
  // read from memory, say. Costs nothing on the device; the interpreter checks it.
  template <class T>
  Val<T> assume_uniform(Val<T> v, Uniform across = Uniform::block, Loc l = Loc::current()) {
    return {this,
            emit({.op = Op::assume_uniform, .type = type_of<T>, .src = {v.op}, .uniform = across}, type_of<T>, l)};
  }

  // --- control flow on the device ---------------------------------------------------------------------------------
  void when(Pred p, auto&& then, Loc l = Loc::current()) {
    Block body = record(then);
    append({.op = Op::when, .src = {p.op}, .body = std::move(body)}, l);
  }
  void when_else(Pred p, auto&& then, auto&& otherwise, Loc l = Loc::current()) {
    Block body = record(then), other = record(otherwise);
    append({.op = Op::when, .src = {p.op}, .body = std::move(body), .otherwise = std::move(other)}, l);
  }
  // body(i) for i = begin; i < end; i += step. Any integer type; T comes from `begin`.
  template <WideInt T>
  void loop(Val<T> begin, C<T> end, C<T> step, auto&& body, Loc l = Loc::current()) {
    Var<T> i(*this, Arg<T>(begin, l));
    loop_while([&] { return i.get(l) < end; },
               [&] {
                 body(i.get(l));
                 i += step;
               },
               l);
  }
  void loop(uint32_t begin, C<uint32_t> end, C<uint32_t> step, auto&& body, Loc l = Loc::current()) {
    loop(constant(begin, l), end, step, body, l);
  }
  // while (head()) body(); head returns a Pred and runs once more than the body.
  void loop_while(auto&& head, auto&& body, Loc l = Loc::current()) {
    Operand go;
    Block test = record([&] { go = head().op; });
    Block inner = record(body);
    append({.op = Op::loop, .src = {go}, .body = std::move(inner), .head = std::move(test)}, l);
  }
  void trap(Loc l = Loc::current()) { append({.op = Op::trap}, l); }

  // --- memory -----------------------------------------------------------------------------------------------------
  // Shared memory of known size; `align` bytes (a tensor copy with 128-byte swizzle wants 1024).
  template <class T>
  Shared<T> shared(uint32_t count, uint32_t align = alignof(T) < 16 ? 16 : alignof(T), Loc l = Loc::current()) {
    uint32_t at = (kernel.shared_bytes + align - 1) / align * align;
    kernel.shared_bytes = at + count * uint32_t(sizeof(T));
    kernel.shared_align = kernel.shared_align < align ? align : kernel.shared_align;
    return {{this, emit({.op = Op::shared_address, .type = Type::u32, .src = {immediate(at)}}, Type::u32, l)}};
  }
  // Shared memory whose size the launch sets; it follows the allocations above.
  template <class T>
  Shared<T> dynamic_shared(Loc l = Loc::current()) {
    kernel.dynamic_shared = true;
    return {{this, emit({.op = Op::dynamic_shared_address, .type = Type::u32}, Type::u32, l)}};
  }
  // A table in constant space.
  template <class T>
  Constant<T> constants(const std::vector<T>& table, Loc l = Loc::current()) {
    auto& bank = kernel.constants;
    bank.resize((bank.size() + 15) / 16 * 16);
    uint64_t at = bank.size();
    bank.resize(at + table.size() * sizeof(T));
    if (!table.empty()) std::memcpy(bank.data() + at, table.data(), table.size() * sizeof(T));
    return {{this, emit({.op = Op::constant_address, .type = Type::u64, .src = {immediate(at)}}, Type::u64, l)}};
  }
  U64 cache_policy(L2 evict, Loc l = Loc::current()) {
    return {this, emit({.op = Op::create_policy, .type = Type::u64, .l2 = evict}, Type::u64, l)};
  }
  void fence(Order order, Scope scope, Loc l = Loc::current()) {
    append({.op = Op::fence, .order = order, .scope = scope}, l);
  }

  // --- across threads: every thread of the scope must come here -----------------------------------------------------
  void barrier(Loc l = Loc::current()) { append({.op = Op::barrier, .src = {immediate(0u)}}, l); }
  // Named barrier: `threads` threads (whole warps) meet at `id`; arrive does not wait.
  void barrier(uint32_t id, uint32_t threads, Loc l = Loc::current()) {
    append({.op = Op::barrier, .src = {immediate(id), immediate(threads)}}, l);
  }
  void barrier_arrive(uint32_t id, uint32_t threads, Loc l = Loc::current()) {
    append({.op = Op::barrier_arrive, .src = {immediate(id), immediate(threads)}}, l);
  }
  // Block barrier that also counts, or joins with and / or, a predicate of every thread.
  U32 barrier_count(Pred p, Loc l = Loc::current()) {
    return {this, emit({.op = Op::barrier_reduce, .type = Type::u32, .src = {p.op}, .reduce = ReduceMode::popc},
                       Type::u32, l)};
  }
  Pred barrier_all(Pred p, Loc l = Loc::current()) {
    return {this, emit({.op = Op::barrier_reduce, .type = Type::pred, .src = {p.op}, .reduce = ReduceMode::all},
                       Type::pred, l)};
  }
  Pred barrier_any(Pred p, Loc l = Loc::current()) {
    return {this, emit({.op = Op::barrier_reduce, .type = Type::pred, .src = {p.op}, .reduce = ReduceMode::any},
                       Type::pred, l)};
  }
  void warp_sync(Loc l = Loc::current()) { append({.op = Op::warp_sync}, l); }
  void cluster_arrive(Order order = Order::release, Loc l = Loc::current()) {
    append({.op = Op::cluster_arrive, .order = order}, l);
  }
  void cluster_wait(Loc l = Loc::current()) { append({.op = Op::cluster_wait, .order = Order::acquire}, l); }
  void cluster_barrier(Loc l = Loc::current()) {
    cluster_arrive(Order::release, l);
    cluster_wait(l);
  }
  // Programmatic dependent launch: wait for the kernels before this one; let those after it start.
  void grid_wait(Loc l = Loc::current()) { append({.op = Op::grid_wait}, l); }
  void grid_launch_dependents(Loc l = Loc::current()) { append({.op = Op::grid_launch}, l); }
  U32 active_mask(Loc l = Loc::current()) {
    return {this, emit({.op = Op::active_mask, .type = Type::u32}, Type::u32, l)};
  }
  Pred elect_one(Loc l = Loc::current()) { return {this, emit({.op = Op::elect, .type = Type::pred}, Type::pred, l)}; }
  void nanosleep(Arg<uint32_t> ns) { append({.op = Op::nanosleep, .src = {ns.op}}, ns.loc); }

  Kernel finish() { return std::move(kernel); }

 private:
  Operand emit_special(Special s, Type t, Loc l) {
    Operand from{.kind = Operand::Kind::special, .type = t, .special = s};
    return emit({.op = Op::mov, .type = t, .src = {from}}, t, l);
  }
};

}  // namespace heddle::ptx

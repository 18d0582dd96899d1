// The front end. Three rules make a kernel readable:
//   1. operators are arithmetic; a named verb touches memory or another thread
//   2. a C++ `for` or `if` runs while building; `k.loop` and `k.when` run on the device
//   3. Val never changes; Var does (so `+=` on a value is a compile error)
#pragma once
#include "ptx/matrix.h"
#include "ptx/warp.h"

namespace heddle::ptx {

// What a launch must respect; the block size is part of the kernel.
struct Launch {
  uint32_t threads = 0;        // per block, a multiple of 32
  uint32_t min_blocks = 0;     // per SM: the assembler keeps registers low enough
  uint32_t max_registers = 0;  // per thread
  uint32_t cluster = 1;        // blocks along x that share their shared memory
  uint32_t cluster_y = 1;
  uint32_t threads_y = 1;
};

// Builds one kernel whose arguments are the members of the plain struct `Args`, and those of the structs it derives
// from.
template <class Args>
struct Builder : Code {
  Builder(std::string name, Launch launch) {
    kernel.name = std::move(name);
    kernel.threads_x = launch.threads;
    kernel.threads_y = launch.threads_y;
    kernel.min_blocks = launch.min_blocks;
    kernel.max_registers = launch.max_registers;
    kernel.cluster_x = launch.cluster;
    kernel.cluster_y = launch.cluster_y;
    kernel.args_bytes = std::is_empty_v<Args> ? 0 : uint32_t(sizeof(Args));
    kernel.args_align = alignof(Args) > 8 ? uint32_t(alignof(Args)) : 8;
  }
  Builder(std::string name, uint32_t threads) : Builder(std::move(name), Launch{.threads = threads}) {}

  template <class T, class Owner>
  requires std::derived_from<Args, Owner> Global<T> arg(DevicePtr<T> Owner::*m, Loc l = Loc::current()) {
    return {param<uint64_t>(offset_of(m), l)};
  }
  // A tensor map: its address, for tensor_load and tensor_store.
  U64 arg(TensorMap Args::*m, Loc l = Loc::current()) {
    return {this, emit({.op = Op::param_address, .type = Type::u64, .src = {immediate(uint64_t(offset_of(m)))}},
                       Type::u64, l)};
  }
  // No bool: it has no form in memory.
  template <class T, class Owner>
  requires(std::derived_from<Args, Owner>&& size_of(type_of<T>) > 0) Val<Loaded<T>> arg(T Owner::*m,
                                                                                        Loc l = Loc::current()) {
    return param<T>(offset_of(m), l);
  }

 private:
  template <class T>
  Val<Loaded<T>> param(int64_t offset, Loc l) {
    return {this, emit({.op = Op::load,
                        .type = type_of<T>,
                        .src = {immediate(uint64_t(0))},
                        .offset = offset,
                        .space = Space::param},
                       type_of<Loaded<T>>, l)};
  }
  template <class M, class Owner>
  static int64_t offset_of(M Owner::*m) {
    static const Args zero{};
    return reinterpret_cast<const char*>(&(zero.*m)) - reinterpret_cast<const char*>(&zero);
  }
};

}  // namespace heddle::ptx

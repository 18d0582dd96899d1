// One launch of a kernel. Every kernel takes one argument: a struct, passed by value.
#pragma once
#include <cstring>
#include <type_traits>
#include <vector>

#include "cuda/module.h"
#include "cuda/stream.h"

namespace heddle::cuda {

struct Launch {
  Function function;
  Dim3 grid, block;
  Dim3 cluster = {};            // blocks; {1, 1, 1}: none
  uint32_t dynamic_shared = 0;  // bytes per block
  // The kernel may begin while the launch before it still runs, and waits by itself for its results
  // (griddepcontrol.wait; GPUs from sm_90 on).
  bool after_previous_starts = false;
  std::vector<std::byte> args;

  // Throws if the kernel takes another number of bytes.
  void set_args(const void* from, size_t bytes);
  template <class Args>
  void set_args(const Args& from) {
    static_assert(std::is_trivially_copyable_v<Args>);
    set_args(&from, sizeof from);
  }
};

// Throws, naming the kernel, if grid, block, cluster, shared memory or arguments cannot be right for it.
void check_launch(const Launch& what);
// The same before anything is launched.
void launch(Stream& stream, const Launch& what);

template <class Args>
Launch make_launch(Function function, Dim3 grid, Dim3 block, const Args& args, uint32_t dynamic_shared = 0) {
  Launch l{.function = std::move(function), .grid = grid, .block = block, .dynamic_shared = dynamic_shared};
  l.set_args(args);
  return l;
}

}  // namespace heddle::cuda

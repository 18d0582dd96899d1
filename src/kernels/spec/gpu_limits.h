// What of a GPU the shapes of its kernels depend on.
#pragma once
#include <cstdint>

#include "kernels/spec/field.h"

namespace heddle::kernels {

struct GpuLimits {
  uint32_t shared_per_block = 227 * 1024, shared_per_sm = 228 * 1024;  // bytes
  uint32_t threads_per_sm = 2048;
  bool clusters = true;  // with bulk copies and mbarriers (sm_90)
  bool cp_async = true;  // otherwise a copy is a load and a store, and the warp waits for it (see ptx/expand.h)
};

// How data comes to shared memory while a kernel computes.
enum Copies : uint32_t {
  copies_bulk,   // a thread starts a copy of many bytes, which reports to an mbarrier (sm_90)
  copies_async,  // each thread copies 16 bytes at a time (cp.async) and waits for its own
};
inline Allowed copy_kinds() { return named({"bulk", "async"}); }
inline uint32_t copies_on(const GpuLimits& gpu) { return gpu.clusters ? copies_bulk : copies_async; }

}  // namespace heddle::kernels

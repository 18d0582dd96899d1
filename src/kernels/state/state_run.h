// How kernels find the recurrent states of a batch. Every sequence has a run of entries, each of which is a row.
#pragma once
#include <cstdint>

#include "ptx/builder.h"

namespace heddle::kernels {

struct StateRun {
  uint32_t begin, count;  // of its entries; not empty
  uint32_t slot;          // of its state
  uint32_t fresh;         // 1: the state is empty, whatever the slot holds
};

// The run of this block, read from (runs) StateRun.
struct LoadedRun {
  ptx::U32 begin, count, slot;
  ptx::Pred fresh;
};
inline LoadedRun load_run(ptx::Code& k, ptx::Global<uint32_t> runs, ptx::U32 run) {
  auto v = load_vec<4>(runs + run * 4u);
  for (ptx::U32& each : v) each = k.assume_uniform(each);
  return {v[0], v[1], v[2], v[3] != 0u};
}

}  // namespace heddle::kernels

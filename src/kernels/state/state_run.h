// How kernels find the recurrent states of a batch. Every sequence has a run of entries, each of which is a row.
#pragma once
#include <cstdint>

#include "ptx/builder.h"

namespace heddle::kernels {

struct StateRun {
  uint32_t begin, count;  // of its entries; not empty
  uint32_t slot;          // of its state
  uint32_t first_chunk;   // of a run that is divided into chunks (chunked_recurrence.h)
};

// The run of this block, of a kernel that has runs, order and positions among its arguments. The sequence begins with
// an empty state, whatever its slot holds, if its first entry has position 0.
struct LoadedRun {
  ptx::U32 begin, count, slot, first_chunk;
  ptx::Pred fresh;
};
template <class Args>
LoadedRun load_run(ptx::Builder<Args>& k, ptx::U32 run) {
  auto v = load_vec<4>(k.arg(&Args::runs) + run * 4u);
  for (ptx::U32& each : v) each = k.assume_uniform(each);
  const ptx::U32 first = load(k.arg(&Args::order) + v[0]);
  return {v[0], v[1], v[2], v[3], k.assume_uniform(load(k.arg(&Args::positions) + first)) == 0u};
}

}  // namespace heddle::kernels

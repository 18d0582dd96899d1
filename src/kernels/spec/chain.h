// Kernels that follow each other in a stream or graph with programmatic dependent launch: the next one starts while
// this one still runs, fetches what no kernel of the chain writes (weights), and waits before it touches anything else.
// A kernel begins with chain_start and calls chain_wait before its first read of activations and before its first
// write. Data that another kernel of the chain wrote is read with plain loads, never with .nc.
#pragma once
#include "ptx/code.h"

namespace heddle::kernels {

// `chained`: the spec's field (0 or 1). Chained kernels need sm_90.
inline void chain_start(ptx::Code& k, uint32_t chained, ptx::Loc l = ptx::Loc::current()) {
  if (chained) k.grid_launch_dependents(l);
}
inline void chain_wait(ptx::Code& k, uint32_t chained, ptx::Loc l = ptx::Loc::current()) {
  if (chained) k.grid_wait(l);
}

}  // namespace heddle::kernels

// Ranks of one machine: sums and messages through memory that their processes share.
#pragma once
#include <memory>
#include <span>

#include "model/collective.h"
#include "ranks/alarm.h"

namespace heddle::ranks {

// Memory for a group of this many ranks, as a descriptor that is closed by exec.
// The caller closes it.
int make_shared_memory(uint32_t ranks);

// This process's view of it. Throws an Error unless the descriptor is such memory for this many ranks. `alarm` must
// outlive it: a wait ends when it is raised, or after Patience::collective or ::pipeline with an Error that names the
// rank that was waited for. With `first` and `count` it is of `count` neighbouring ranks from `first` on, of which
// `rank` is one: they meet by themselves.
std::unique_ptr<model::Collective> open_shared_memory(int descriptor, uint32_t rank, uint32_t ranks, Alarm& alarm,
                                                      const Patience& patience = {}, uint32_t first = 0,
                                                      uint32_t count = 0);

}  // namespace heddle::ranks

// Ranks of several machines: sums and messages through a connection between every two of them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/collective.h"
#include "ranks/alarm.h"

namespace heddle::ranks {

// `sockets`: one connected stream for every other rank, -1 at the rank's own place; they are closed with the
// collective. Sums have the same bits as those of shared memory. `alarm`: as of open_shared_memory(). `first`: number
// of the first of these ranks in the group, for messages.
std::unique_ptr<model::Collective> make_tcp(std::vector<int> sockets, uint32_t rank, Alarm& alarm,
                                            const Patience& patience = {}, uint32_t first = 0);

}  // namespace heddle::ranks

// The catalog's lines for what runs at the memory limit, and the limit itself.
#include "kernels/entry.h"
#include "kernels/ring_gemv.h"
#include "kernels/stream_read.h"

namespace heddle::kernels {

void add_ring_kernels(std::vector<Entry>& all) {
  all.push_back(entry<RingGemv>());
  all.push_back(entry<RingPack>());
  all.push_back(entry<StreamRead>());
}

}  // namespace heddle::kernels

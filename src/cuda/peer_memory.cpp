#include "cuda/peer_memory.h"

#include "cuda/context_state.h"

namespace heddle::cuda {

MemoryHandle share(const Buffer& buffer) {
  if (buffer.bytes() == 0 || buffer.bytes() % shared_page)
    throw Error("a buffer of {} bytes cannot be shared: expected a multiple of {}", buffer.bytes(), shared_page);
  MemoryHandle handle{};
  ContextState& s = buffer.state();
  s.call(s.api.share_memory, &handle, buffer.address());
  return handle;
}

PeerMemory::PeerMemory(const Context& context, const MemoryHandle& handle) {
  ContextState& s = *context.state();
  uint64_t address = 0;
  s.call(s.api.open_shared, &address, handle, reach_peers_when_used);
  memory_ = Owned(context.state(), address,
                  [](ContextState& state, uint64_t h) noexcept { state.release(state.api.close_shared, h); });
}

}  // namespace heddle::cuda

// Device memory that processes of one machine share.
#pragma once
#include <array>

#include "cuda/memory.h"

namespace heddle::cuda {

// Names a buffer to other processes.
struct MemoryHandle {
  std::array<std::byte, 64> bytes;
};
// The buffer must be one of whole pages, of 2 MiB each: others would share what lies beside them, too.
constexpr size_t shared_page = 2 << 20;
MemoryHandle share(const Buffer& buffer);

// A buffer of another process, on this GPU or on one that this one can reach, move-only. That process must keep it.
class PeerMemory {
 public:
  PeerMemory(const Context& context, const MemoryHandle& handle);
  uint64_t address() const { return memory_.handle(); }

 private:
  Owned memory_;
};

}  // namespace heddle::cuda

// How the host tells the device about a step.
#pragma once
#include <cstring>
#include <span>

#include "base/error.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace heddle::gpu {

// Pinned memory on the way to the device: what a step is told, until it has been copied.
class Staging {
 public:
  Staging(const cuda::Context& context, size_t bytes) : pinned_(context, bytes), sent_(context, cuda::Event::untimed) {}

  void wait() { sent_.synchronize(), used_ = 0; }
  template <class T>
  void send(cuda::Stream& stream, uint64_t to, std::span<const T> data) {
    if (data.empty()) return;
    check(used_ + data.size_bytes() <= pinned_.bytes(), "room for what a batch has");
    std::memcpy(pinned_.data() + used_, data.data(), data.size_bytes());
    cuda::write_device(stream, to, pinned_.data() + used_, data.size_bytes());
    used_ += (data.size_bytes() + 15) / 16 * 16;
  }
  void sent(cuda::Stream& stream) { sent_.record(stream); }

 private:
  cuda::PinnedBuffer pinned_;
  cuda::Event sent_;
  size_t used_ = 0;
};

}  // namespace heddle::gpu

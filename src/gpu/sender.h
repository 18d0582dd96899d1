// Matrices from the file to tiles on the device: several threads copy them to pinned slots, the slots go to a buffer on
// the device, and a kernel packs the tiles from there while the next are read.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "gpu/library.h"
#include "gpu/weights.h"

namespace heddle::gpu {

class Sender {
 public:
  // `stage`: bytes of the buffer on the device, at least stage_bytes() of all weights that are sent.
  Sender(Library& library, cuda::Stream& stream, uint64_t stage);

  // The stage that these weights need.
  static uint64_t stage_bytes(const Weights& w);
  // The orders of the rows of w's sources, the same for every expert, as fill() takes them.
  std::vector<cuda::Buffer> orders(const Weights& w) const;
  // All sources of w, packed to `tiles`. `sent` is called with the bytes of each copy; it may be empty. Returns when
  // all is in slots or behind them: the stream does the rest.
  void fill(const Weights& w, uint64_t tiles, std::span<const cuda::Buffer> orders,
            const std::function<void(uint64_t)>& sent = {});

 private:
  void send(std::span<const uint8_t> data, const std::function<void(uint64_t)>& sent);

  Library& library_;
  cuda::Stream& stream_;
  cuda::Buffer stage_;
  std::vector<cuda::PinnedBuffer> pinned_;
  std::vector<cuda::Event> free_;  // of each slot
  size_t next_ = 0;
};

}  // namespace heddle::gpu

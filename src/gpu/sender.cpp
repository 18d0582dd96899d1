#include "gpu/sender.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/product/tile_pack.h"

namespace heddle::gpu {
namespace {

constexpr size_t slot_bytes = 32 << 20, slots = 4, copy_threads = 8, chunk_bytes = 2 << 20;

// How many experts from `first` on have sources that follow one another in the file and fit into a slot together: the
// matrices of single experts are too small for several threads.
size_t adjacent(const Weights& w, size_t first, size_t source, size_t each) {
  const std::span<const uint8_t> begin = w.sources[first * each + source].from.data;
  size_t count = 1;
  while (first + count < w.count && begin.size() % 16 == 0 && (count + 1) * begin.size() <= slot_bytes &&
         w.sources[(first + count) * each + source].from.data.data() == begin.data() + count * begin.size())
    ++count;
  return count;
}

}  // namespace

Sender::Sender(Library& library, cuda::Stream& stream, uint64_t stage)
    : library_(library), stream_(stream), stage_(library.context(), stage) {
  for (size_t i = 0; i < slots; ++i) {
    pinned_.emplace_back(library.context(), std::min<size_t>(slot_bytes, std::max<uint64_t>(stage, 1)));
    free_.emplace_back(library.context(), cuda::Event::untimed);
  }
}

uint64_t Sender::stage_bytes(const Weights& w) {
  uint64_t largest = 0, all = 0;
  for (const Source& source : w.sources) {
    largest = std::max<uint64_t>(largest, source.from.data.size());
    all += source.from.data.size();
  }
  return std::max(largest, w.count > 1 ? std::min<uint64_t>(all, slot_bytes) : 0);
}

std::vector<cuda::Buffer> Sender::orders(const Weights& w) const {
  std::vector<cuda::Buffer> all;
  for (size_t i = 0; i < w.sources.size() / w.count; ++i)
    all.push_back(cuda::Buffer::of<uint32_t>(library_.context(), w.sources[i].rows));
  return all;
}

void Sender::fill(const Weights& w, uint64_t tiles, std::span<const cuda::Buffer> orders,
                  const std::function<void(uint64_t)>& sent) {
  const kernels::TilePack spec{.format = uint32_t(w.shape.format), .tile_cols = w.shape.tile_cols};
  const Loaded& kernel = library_.get(spec);
  const size_t each = w.sources.size() / w.count;
  for (size_t source = 0; source < each; ++source)
    for (size_t expert = 0, count; expert < w.count; expert += count) {
      count = adjacent(w, expert, source, each);
      const std::span<const uint8_t> first = w.sources[expert * each + source].from.data;
      send({first.data(), count * first.size()}, sent);
      for (size_t i = 0; i < count; ++i) {
        const kernels::TilePack::Args args{.to = {tiles + (expert + i) * w.shape.bytes()},
                                           .from = {stage_.address() + i * first.size()},
                                           .order = {orders[source].address()},
                                           .rows = w.shape.rows,
                                           .cols = w.shape.cols};
        cuda::launch(stream_, kernel.launch(spec.grid(args), 0, &args, sizeof args));
      }
    }
}

void Sender::send(std::span<const uint8_t> data, const std::function<void(uint64_t)>& sent) {
  for (size_t at = 0; at < data.size(); at += slot_bytes) {
    const size_t bytes = std::min(slot_bytes, data.size() - at);
    cuda::PinnedBuffer& slot = pinned_[next_];
    free_[next_].synchronize();
    parallel_for((bytes + chunk_bytes - 1) / chunk_bytes, std::min(copy_threads, hardware_threads()), [&](size_t i) {
      const size_t first = i * chunk_bytes;
      std::memcpy(slot.data() + first, data.data() + at + first, std::min(chunk_bytes, bytes - first));
    });
    stage_.write(stream_, slot.data(), bytes, at);
    free_[next_].record(stream_);
    next_ = (next_ + 1) % slots;
    if (sent) sent(bytes);
  }
}

}  // namespace heddle::gpu

// Weights from the file to tiles on the device, in one stream: several threads copy a matrix to pinned slots, the slots
// go to a buffer on the device, and a kernel packs the tiles from there while the next matrix is read.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "base/rope_frequencies.h"
#include "gpu/library.h"
#include "gpu/weights.h"
#include "kernels/product/tile_pack.h"

namespace heddle::gpu {
namespace {

constexpr size_t slot_bytes = 32 << 20, slots = 4, copy_threads = 8, chunk_bytes = 2 << 20;

class Uploader {
 public:
  Uploader(Library& library, cuda::Stream& stream, uint64_t largest, uint64_t all, const UploadProgress& progress)
      : library_(library), stream_(stream), all_(all), progress_(progress) {
    const cuda::Context& context = library.context();
    stage_ = cuda::Buffer(context, largest);
    for (size_t i = 0; i < slots; ++i) {
      pinned_.emplace_back(context, std::min<size_t>(slot_bytes, std::max<uint64_t>(largest, 1)));
      free_.emplace_back(context, cuda::Event::untimed);
    }
  }

  void weights(Weights& w) {
    w.tiles = cuda::Buffer(library_.context(), w.bytes());
    if (!w.bias.empty()) {
      std::vector<float> packed(w.bias.size());
      for (size_t p = 0; p < packed.size(); ++p) packed[p] = w.bias[p < w.places.size() ? w.places[p] : p];
      w.packed_bias = vector<float>(packed);
    }
    const size_t each = w.sources.size() / w.count;
    std::vector<cuda::Buffer> orders;  // the same for every expert
    for (size_t i = 0; i < each; ++i) orders.push_back(vector<uint32_t>(w.sources[i].rows));
    const kernels::TilePack spec{.format = uint32_t(w.shape.format), .tile_cols = w.shape.tile_cols};
    const Loaded& kernel = library_.get(spec);
    for (size_t i = 0; i < w.sources.size(); ++i) {
      send(w.sources[i].from.data);
      const kernels::TilePack::Args args{.to = {w.tiles.address() + i / each * w.shape.bytes()},
                                         .from = {stage_.address()},
                                         .order = {orders[i % each].address()},
                                         .rows = w.shape.rows,
                                         .cols = w.shape.cols};
      cuda::launch(stream_, kernel.launch(spec.grid(args), 0, &args, sizeof args));
    }
    keep_.insert(keep_.end(), std::make_move_iterator(orders.begin()), std::make_move_iterator(orders.end()));
    w.sources.clear();
  }

  template <class T>
  cuda::Buffer vector(const std::vector<T>& values) {
    return cuda::Buffer::of<T>(library_.context(), values);
  }

  void norm(DeviceNorm& n) {
    if (!n) return;
    n.device_weight = vector<float>(n.weight);
    if (!n.bias.empty()) n.device_bias = vector<float>(n.bias);
  }

 private:
  void send(std::span<const uint8_t> data) {
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
      done_ += bytes;
      if (progress_) progress_(done_, all_);
    }
  }

  Library& library_;
  cuda::Stream& stream_;
  uint64_t all_, done_ = 0;
  const UploadProgress& progress_;
  cuda::Buffer stage_;
  std::vector<cuda::PinnedBuffer> pinned_;
  std::vector<cuda::Event> free_;
  std::vector<cuda::Buffer> keep_;  // orders, until the stream has used them
  size_t next_ = 0;
};

}  // namespace

void upload(DeviceModel& model, Library& library, cuda::Stream& stream, const UploadProgress& progress) {
  const bool tied = model.is_tied();
  uint64_t all = 0;
  std::vector<kernels::AnySpec> packers;
  for (Weights* w : model.all()) {
    if (tied && w == &model.output) continue;
    for (const Source& source : w->sources) all += source.from.data.size();
    packers.emplace_back(kernels::TilePack{.format = uint32_t(w->shape.format), .tile_cols = w->shape.tile_cols});
  }
  library.load(packers);
  Uploader up(library, stream, model.largest_source(), all, progress);
  for (Weights* w : model.all())
    if (!tied || w != &model.output) up.weights(*w);
  if (tied) {
    model.output.tied = model.embedding.tiles.address();
    model.output.sources.clear();
    if (!model.output.bias.empty()) model.output.packed_bias = up.vector(model.output.bias);
  }
  for (DeviceLayer& layer : model.layers)
    for (DeviceNorm* n : layer.norms()) up.norm(*n);
  up.norm(model.norm);
  for (DeviceLayer& layer : model.layers)
    for (DeviceSublayer& sublayer : layer.sublayers)
      if (auto* a = std::get_if<DeviceAttention>(&sublayer); a && a->rotary)
        a->turns = up.vector(RopeFrequencies{.radians = a->model->rope.radians}.turns());
  stream.synchronize();  // before the pinned slots and the stage are freed
  model.owned.clear();
}

}  // namespace heddle::gpu

// Weights from the file to tiles on the device, once while loading, in one stream.
#include <algorithm>

#include "base/f16.h"
#include "base/parallel.h"
#include "base/rope_frequencies.h"
#include "gpu/library.h"
#include "gpu/sender.h"
#include "gpu/weights.h"
#include "kernels/product/tile_pack.h"

namespace heddle::gpu {
namespace {

class Uploader {
 public:
  Uploader(Library& library, cuda::Stream& stream, uint64_t stage, uint64_t all, const UploadProgress& progress)
      : library_(library), sender_(library, stream, stage), all_(all), progress_(progress) {}

  // Of visiting weights the bias alone: see visitors.h.
  void weights(Weights& w) {
    if (!w.bias.empty()) {
      std::vector<float> packed(w.bias.size());
      // the places are those of an expert, or of one matrix of several that share the bias
      for (size_t p = 0; p < packed.size(); ++p) {
        const size_t in_expert = w.count > 1 ? p % w.shape.rows : p, first = p - in_expert;
        packed[p] = w.bias[first + (in_expert < w.places.size() ? w.places[in_expert] : in_expert)];
      }
      w.packed_bias = vector<float>(packed);
    }
    if (w.visiting) return;
    w.tiles = cuda::Buffer(library_.context(), w.bytes());
    std::vector<cuda::Buffer> orders = sender_.orders(w);
    sender_.fill(w, w.tiles.address(), orders, [&](uint64_t bytes) {
      done_ += bytes;
      if (progress_) progress_(done_, all_);
    });
    keep_.insert(keep_.end(), std::make_move_iterator(orders.begin()), std::make_move_iterator(orders.end()));
    w.sources.clear();
  }

  template <class T>
  cuda::Buffer vector(const std::vector<T>& values) {
    return cuda::Buffer::of<T>(library_.context(), values);
  }

  // As rows of f16.
  cuda::Buffer halves(const model::Matrix& matrix) {
    std::vector<f16> all(matrix.rows * matrix.cols);
    constexpr uint64_t slice = 64;
    parallel_for((matrix.rows + slice - 1) / slice, 0, [&](size_t index) {
      std::vector<float> row(matrix.cols);
      for (uint64_t r = index * slice; r < std::min(matrix.rows, (index + 1) * slice); ++r) {
        quant::decode(matrix.format, matrix.data.data() + r * matrix.row_bytes(), matrix.cols, row.data());
        for (uint64_t c = 0; c < matrix.cols; ++c) all[r * matrix.cols + c] = to_f16(row[c]);
      }
    });
    return vector<f16>(all);
  }

  void convolution(const model::Convolution& from, DeviceConvolution& to) {
    to.weight = vector<float>(from.weight);
    if (!from.bias.empty()) to.bias = vector<float>(from.bias);
  }

  void norm(DeviceNorm& n) {
    if (!n) return;
    n.device_weight = vector<float>(n.weight);
    if (!n.bias.empty()) n.device_bias = vector<float>(n.bias);
  }

 private:
  Library& library_;
  Sender sender_;
  uint64_t all_, done_ = 0;
  const UploadProgress& progress_;
  std::vector<cuda::Buffer> keep_;  // orders, until the stream has used them
};

}  // namespace

void upload(DeviceModel& model, Library& library, cuda::Stream& stream, const UploadProgress& progress) {
  const bool tied = model.is_tied();
  uint64_t all = 0;
  std::vector<kernels::AnySpec> packers;
  for (Weights* w : model.all()) {
    if (tied && w == &model.output) continue;
    if (!w->visiting)
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
  up.norm(model.embedding_norm);
  if (model.token_inputs) up.norm(model.token_inputs->norm);
  for (DeviceLayer& layer : model.layers)
    for (DeviceSublayer& sublayer : layer.sublayers)
      if (auto* a = std::get_if<DeviceAttention>(&sublayer)) {
        const model::Rope& rope = a->model->rope;
        if (a->rotary) a->turns = up.vector(RopeFrequencies{.radians = rope.radians}.turns());
        if (!rope.long_radians.empty()) {
          a->short_turns = up.vector(RopeFrequencies{.radians = rope.radians}.turns());
          a->long_turns = up.vector(RopeFrequencies{.radians = rope.long_radians}.turns());
        }
        if (!a->model->sinks.empty()) a->sinks = up.vector(a->model->sinks);
        if (!a->model->slopes.empty()) a->slopes = up.vector(a->model->slopes);
        if (!a->latent) continue;
        a->latent->k_up = up.halves(a->model->latent->k_up.all);
        a->latent->v_up = up.halves(a->model->latent->v_up.all);
      } else if (auto* m = std::get_if<DeviceMixture>(&sublayer)) {
        if (!m->model->routing.bias.empty()) m->choice_bias = up.vector(m->model->routing.bias);
        if (!m->model->routing.scales.empty()) m->expert_scales = up.vector(m->model->routing.scales);
      } else if (auto* t = std::get_if<DeviceAltup>(&sublayer)) {
        if (!t->model->router.empty()) t->router = up.vector(t->model->router);
        if (!t->model->coefficients.empty()) t->coefficients = up.vector(t->model->coefficients);
      } else if (auto* r = std::get_if<DeviceRecurrence>(&sublayer)) {
        up.convolution(r->model->convolution, r->convolution);
        r->step_bias = up.vector(r->model->step_bias);
        r->rates = up.vector(r->model->rates);
        if (!r->model->skip.empty()) r->skip = up.vector(r->model->skip);
        if (!r->model->gated_norm.weight.empty()) r->gated_norm = up.vector(r->model->gated_norm.weight);
      } else if (auto* c = std::get_if<DeviceShortConvolution>(&sublayer)) {
        up.convolution(c->model->convolution, c->convolution);
      } else if (auto* h = std::get_if<DeviceNextHead>(&sublayer)) {
        std::vector<float> weights;
        for (uint64_t i = 0; i < h->model->join.rows; ++i) weights.insert(weights.end(), {1, 0});
        h->shift = up.vector(weights);
      }
  stream.synchronize();  // before the pinned slots and the stage are freed
  model.owned.clear();
  model.halves.clear();
}

}  // namespace heddle::gpu

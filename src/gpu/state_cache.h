// The recurrent states of a sublayer on the device, in slots: the last inputs of its convolution, and the states of its
// heads, f32.
#pragma once
#include "cuda/memory.h"
#include "gpu/weights.h"
#include "kernels/state/recurrence.h"

namespace heddle::gpu {

class StateCache {
 public:
  StateCache(const cuda::Context& context, const model::Sublayer& sublayer, uint32_t slots) : sizes_(sublayer) {
    inputs_ = cuda::Buffer(context, slots * sizes_.inputs * 4);
    if (sizes_.heads) heads_ = cuda::Buffer(context, slots * sizes_.heads * 4);
    inputs_.fill(0);
    if (sizes_.heads) heads_.fill(0);  // kernels keep the zeros behind the keys
  }

  uint64_t inputs() const { return inputs_.address(); }
  uint64_t heads() const { return heads_.address(); }
  uint64_t input_stride() const { return sizes_.inputs; }  // values of a slot
  uint64_t head_stride() const { return sizes_.heads; }

  void copy(cuda::Stream& stream, uint32_t from, uint32_t to) const {
    const auto part = [&](const cuda::Buffer& buffer, uint64_t values) {
      const uint64_t bytes = values * 4;
      if (bytes) cuda::copy_device(stream, buffer.address() + to * bytes, buffer.address() + from * bytes, bytes);
    };
    part(inputs_, sizes_.inputs);
    part(heads_, sizes_.heads);
  }

  // A slot as bytes: inputs, then heads. f(address, bytes) for both.
  void each_part(uint32_t slot, auto&& f) const {
    if (inputs_.bytes()) f(inputs_.address() + slot * sizes_.inputs * 4, sizes_.inputs * 4);
    if (heads_.bytes()) f(heads_.address() + slot * sizes_.heads * 4, sizes_.heads * 4);
  }

  // The device memory of the states of all sublayers.
  static uint64_t bytes(const model::Model& model, const model::Limits& limits) {
    uint64_t total = 0;
    each(model, [&](const model::Sublayer& sublayer) {
      const Sizes sizes(sublayer);
      total += allocated(limits.state_slots * sizes.inputs * 4) + allocated(limits.state_slots * sizes.heads * 4);
    });
    return total;
  }
  // f(sublayer) for those with a state.
  static void each(const model::Model& model, auto&& f) {
    for (const model::Layer& layer : model.layers)
      for (const model::Sublayer& sublayer : layer.sublayers)
        if (model::state_values(sublayer)) f(sublayer);
  }

 private:
  // Of a slot, in values.
  struct Sizes {
    uint64_t inputs = 0, heads = 0;
    explicit Sizes(const model::Sublayer& sublayer) {
      const auto whole = [](uint64_t values) { return (values + 3) / 4 * 4; };
      if (const auto* c = std::get_if<model::ShortConvolution>(&sublayer))
        inputs = whole(model::state_values(c->convolution));
      if (const auto* h = std::get_if<model::NextHead>(&sublayer)) inputs = whole(h->join.rows);
      if (const auto* r = std::get_if<model::Recurrence>(&sublayer)) {
        inputs = whole(model::state_values(r->convolution));
        heads = r->values() * kernels::Recurrence{.key = r->key}.padded_key();
      }
    }
  };

  Sizes sizes_;
  cuda::Buffer inputs_, heads_;
};

}  // namespace heddle::gpu

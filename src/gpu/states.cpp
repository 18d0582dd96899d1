// States behind the final norm: those of all rows are made, those asked for come to the host.
#include <cstring>

#include "gpu/backend.h"
#include "kernels/layer/norm.h"

namespace heddle::gpu {

// Into `result`, which the layers need no more and the head does not use; h stays as it is for that.
void Phases::keep_states() {
  name("states");
  const DeviceNorm& norm = weights_.norm;
  const uint64_t y = work_.result.address(), x = work_.h.address();
  constexpr uint32_t vec = 4;  // a width is a multiple of 8
  check(norm.kind != model::Norm::Kind::none, "a norm behind the last layer");
  if (norm.kind == model::Norm::Kind::rms)
    launch(kernels::RmsNorm{.vec = vec, .chained = chained}, {.y = {y},
                                                              .x = {x},
                                                              .w = {norm.device_weight.address()},
                                                              .rows = rows_.count,
                                                              .cols = model_.width,
                                                              .eps = norm.epsilon});
  else
    launch(kernels::LayerNorm{.vec = vec, .bias = !norm.bias.empty(), .chained = chained},
           {.y = {y},
            .x = {x},
            .w = {norm.device_weight.address()},
            .b = {norm.device_bias.address()},
            .rows = rows_.count,
            .cols = model_.width,
            .eps = norm.epsilon});
}

std::span<const float> Gpu::states() {
  const size_t row_bytes = model_.width * 4ull, at_once = logits_.bytes() / row_bytes;
  states_.resize(wanted_states_.size() * model_.width);
  for (size_t first = 0, count; first < wanted_states_.size(); first += count) {
    const uint64_t row = wanted_states_[first];
    for (count = 1; count < at_once && first + count < wanted_states_.size(); ++count)
      if (wanted_states_[first + count] != row + count) break;
    cuda::read_device(stream_, logits_.data(), work_->result.address() + row * row_bytes, count * row_bytes);
    stream_.synchronize();
    std::memcpy(states_.data() + first * model_.width, logits_.data(), count * row_bytes);
  }
  return states_;
}

}  // namespace heddle::gpu

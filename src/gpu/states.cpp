// States behind the final norm, of all rows.
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

}  // namespace heddle::gpu

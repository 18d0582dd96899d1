#include "cuda/tensor_map.h"

#include "cuda/context_state.h"

namespace heddle::cuda {

EncodedTensorMap encode_tensor_map(const Context& context, const TensorLayout& layout) {
  ContextState& s = *context.state();
  if (!s.api.tensor_map_encode)
    throw NoDriver(
        fmt::format("tensor maps need a driver for CUDA 12.0 or newer, this one is for CUDA {}", s.driver_version));
  const std::array<uint32_t, 5> ones{1, 1, 1, 1, 1};
  EncodedTensorMap map;
  // the driver's strides begin with dimension 1; then: no interleaving, the swizzle, no promotion in L2, zeros outside
  s.call(s.api.tensor_map_encode, static_cast<void*>(map.words.data()), int(layout.type), layout.rank,
         reinterpret_cast<void*>(layout.address), layout.size.data(), layout.stride.data() + 1, layout.box.data(),
         ones.data(), 0, int(layout.swizzle), 0, 0);
  return map;
}

}  // namespace heddle::cuda

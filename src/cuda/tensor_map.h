// Tensor maps: what a bulk tensor copy needs to know about a tensor in device memory, encoded by the driver.
#pragma once
#include <array>

#include "cuda/context.h"

namespace heddle::cuda {

// The numbers are the driver's.
enum class TensorType : int { u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16 };
enum class TensorSwizzle : int { none, b32, b64, b128 };

struct TensorLayout {  // dimension 0 is the contiguous one
  TensorType type = TensorType::f32;
  uint32_t rank = 1;                 // 1 to 5
  uint64_t address = 0;              // a multiple of 16
  std::array<uint64_t, 5> size{};    // elements
  std::array<uint64_t, 5> stride{};  // bytes between neighbours in dimension i (i >= 1), multiples of 16
  std::array<uint32_t, 5> box{};     // elements copied at once, each 1 to 256
  TensorSwizzle swizzle = TensorSwizzle::none;
};

struct alignas(64) EncodedTensorMap {
  std::array<uint64_t, 16> words{};
};

// Zeros are read outside of the tensor. Needs a driver for CUDA 12.0 or newer, and a GPU from sm_90 on.
EncodedTensorMap encode_tensor_map(const Context& context, const TensorLayout& layout);

}  // namespace heddle::cuda

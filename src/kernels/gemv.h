// Matrix times vector, the matrix quantised.
#pragma once
#include <compare>

#include "kernels/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = W x with W in Q4_K, one warp per row.
struct Q4KGemv {
  static constexpr std::string_view name = "q4k_gemv", summary = "Q4_K matrix times an f32 vector, one warp per row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y;    // (rows)
    ptx::DevicePtr<float> x;    // (cols), 16-byte aligned
    ptx::DevicePtr<uint8_t> w;  // (rows, cols / 256) blocks of 144 bytes, 16-byte aligned
    uint32_t rows, cols;        // cols: a multiple of 256
  };
  uint32_t warps = 4;  // rows per block
  auto operator<=>(const Q4KGemv&) const = default;
  static auto fields() { return std::tuple(Field<Q4KGemv>{"warps", &Q4KGemv::warps, range(1, 32)}); }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the kernel.
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

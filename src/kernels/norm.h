// Normalisation of rows.
#pragma once
#include <compare>

#include "kernels/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = x / sqrt(mean(x^2) + eps) * w, one block per row.
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm", summary = "RMSNorm of rows of f32, one block per row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;  // (rows, cols)
    ptx::DevicePtr<float> w;     // (cols)
    uint32_t rows, cols;
    float eps;
  };
  uint32_t threads = 256;
  uint32_t vec = 1;  // values per load; cols must be a multiple of it
  auto operator<=>(const RmsNorm&) const = default;
  static auto fields() {
    return std::tuple(Field<RmsNorm>{"threads", &RmsNorm::threads, range(32, 1024, 32)},
                      Field<RmsNorm>{"vec", &RmsNorm::vec, one_of({1, 2, 4})});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

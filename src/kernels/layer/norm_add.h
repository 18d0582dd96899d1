// What a part of a layer made, normalised and added to the residual stream.
#pragma once
#include <compare>

#include "kernels/layer/row_norm.h"
#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// h += scale * (norm(y) * weight + bias), or without a norm h += scale * (y + bias). One block per row.
struct NormAdd {
  static constexpr std::string_view name = "norm_add", summary = "h += scale * norm(y), rows of f32",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> h, y;          // (rows, cols)
    ptx::DevicePtr<float> weight, bias;  // (cols); the weight is read with a norm, the bias with `bias`
    uint32_t rows, cols;
    float scale = 1, epsilon = 0;
  };
  uint32_t threads = 256;
  uint32_t norm = norm_rms;
  uint32_t bias = 0;
  uint32_t chained = 0;
  auto operator<=>(const NormAdd&) const = default;
  static auto fields() {
    using F = Field<NormAdd>;
    return std::tuple(F{"threads", &NormAdd::threads, range(32, 1024, 32)}, F{"norm", &NormAdd::norm, norm_kinds()},
                      F{"bias", &NormAdd::bias, yes_or_no()}, F{"chained", &NormAdd::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

// Normalisation of rows.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = x / sqrt(mean(x^2) + eps) * w, one block per row. y may be x.
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
  uint32_t vec = 1;       // values per load; cols must be a multiple of it
  uint32_t plus_one = 0;  // times (1 + w), as Gemma stores its weights
  uint32_t chained = 0;
  auto operator<=>(const RmsNorm&) const = default;
  static auto fields() {
    return std::tuple(Field<RmsNorm>{"threads", &RmsNorm::threads, range(32, 1024, 32)},
                      Field<RmsNorm>{"vec", &RmsNorm::vec, one_of({1, 2, 4})},
                      Field<RmsNorm>{"plus_one", &RmsNorm::plus_one, yes_or_no()},
                      Field<RmsNorm>{"chained", &RmsNorm::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// y = (x - mean(x)) / sqrt(variance(x) + eps) * w + b, one block per row. y may be x.
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm", summary = "LayerNorm of rows of f32, one block per row",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> y, x;  // (rows, cols)
    ptx::DevicePtr<float> w, b;  // (cols); b is not read without a bias
    uint32_t rows, cols;
    float eps;
  };
  uint32_t threads = 256;
  uint32_t vec = 1;  // values per load; cols must be a multiple of it
  uint32_t bias = 1;
  uint32_t chained = 0;
  auto operator<=>(const LayerNorm&) const = default;
  static auto fields() {
    return std::tuple(Field<LayerNorm>{"threads", &LayerNorm::threads, range(32, 1024, 32)},
                      Field<LayerNorm>{"vec", &LayerNorm::vec, one_of({1, 2, 4})},
                      Field<LayerNorm>{"bias", &LayerNorm::bias, yes_or_no()},
                      Field<LayerNorm>{"chained", &LayerNorm::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

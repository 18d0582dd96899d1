// Alternating updates (AltUp) of several residual streams, of which layers compute one.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// One block per row. With r = tanh(router (norm(x) * weight)), a number per stream, and c = coefficients r:
//   predict  with s = (x, others): s_i += sum of c_ij s_j; then kept = x.
//   correct  with d = x - kept: x = kept + (1 + c_0) d; other i += (1 + c_i) d.
// The norm is an RMSNorm.
struct Altup {
  static constexpr std::string_view name = "altup", summary = "a step of alternating updates of residual streams",
                                    lowest_target = "sm_75";
  enum : uint32_t { predict, correct };
  struct Args {
    ptx::DevicePtr<float> x;             // (rows, cols)
    ptx::DevicePtr<float> others;        // (streams - 1, stream_stride): (rows, cols) each
    ptx::DevicePtr<float> kept;          // (rows, cols)
    ptx::DevicePtr<float> weight;        // (cols), of the norm
    ptx::DevicePtr<float> router;        // (streams, cols)
    ptx::DevicePtr<float> coefficients;  // predict: (streams, streams, streams); correct: (streams, streams)
    uint64_t stream_stride;              // values from one stream to the next
    uint32_t rows, cols;
    float epsilon;
  };
  uint32_t threads = 256;
  uint32_t step = predict;
  uint32_t streams = 4;
  uint32_t chained = 0;
  auto operator<=>(const Altup&) const = default;
  static auto fields() {
    using F = Field<Altup>;
    return std::tuple(F{"threads", &Altup::threads, range(32, 1024, 32)},
                      F{"step", &Altup::step, named({"predict", "correct"})},
                      F{"streams", &Altup::streams, range(2, 16)}, F{"chained", &Altup::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

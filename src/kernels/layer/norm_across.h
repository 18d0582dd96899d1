// RMSNorm of rows that are divided among ranks. `rank_squares` computes the sum of squares of this rank's part; after
// an all-reduce of these sums `norm_across` normalises the part.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// sums[row, i] = the sum of the squares of x, or of x * silu(gate), at the place of this rank's norm, and 0 at the
// others. One block per row.
struct RankSquares {
  static constexpr std::string_view name = "rank_squares", summary = "sums of squares of rows of f32, one of several",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> x;     // (rows, x_stride)
    ptx::DevicePtr<float> gate;  // (rows, gate_stride); read with `gated`
    ptx::DevicePtr<float> sums;  // (rows, sums_stride)
    uint32_t rows, cols;
    uint32_t x_stride, gate_stride, sums_stride;
    uint32_t places;  // that are written of a row of sums
    uint32_t place;   // where the sum goes; `places`: nowhere, another rank counts these values
  };
  uint32_t threads = 256;
  uint32_t gated = 0;
  uint32_t chained = 0;
  auto operator<=>(const RankSquares&) const = default;
  static auto fields() {
    using S = RankSquares;
    using F = Field<S>;
    return std::tuple(F{"threads", &S::threads, range(32, 1024, 32)}, F{"gated", &S::gated, yes_or_no()},
                      F{"chained", &S::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// x = x * weight / sqrt(sum / count + epsilon), times silu(gate) as the field `gate` says. One block per row.
struct NormAcross {
  static constexpr std::string_view name = "norm_across", summary = "RMSNorm of rows of f32 by sums that are given",
                                    lowest_target = "sm_75";
  struct Args {
    ptx::DevicePtr<float> x;       // (rows, x_stride), in place
    ptx::DevicePtr<float> gate;    // (rows, gate_stride); read with a gate
    ptx::DevicePtr<float> weight;  // (cols)
    ptx::DevicePtr<float> sums;    // (rows, sums_stride): the first of each row is read
    uint32_t rows, cols;
    uint32_t x_stride, gate_stride, sums_stride;
    uint32_t count;  // of values that a sum is over
    float epsilon;
  };
  uint32_t threads = 256;
  uint32_t gate = none;
  uint32_t chained = 0;
  enum : uint32_t {
    none,
    first,  // the sum is over x * silu(gate)
    last,
  };
  auto operator<=>(const NormAcross&) const = default;
  static auto fields() {
    using S = NormAcross;
    using F = Field<S>;
    return std::tuple(F{"threads", &S::threads, range(32, 1024, 32)},
                      F{"gate", &S::gate, named({"none", "first", "last"})}, F{"chained", &S::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

}  // namespace heddle::kernels

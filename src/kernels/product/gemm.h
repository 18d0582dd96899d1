// The product of many rows with a matrix of weights, both f16, on the matrix units: for prompts.
#pragma once
#include <compare>

#include "kernels/spec/field.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// y = scale * (a b^T) + bias, or y += that; sums are f32. One block per tile of y. The rows of a and b are padded with
// zeros from k to the next multiple of 64 (half_rows does that for a). Nothing is read before the preceding kernels of
// a chain have ended, so that b may be the output of one of them.
struct Gemm {
  static constexpr std::string_view name = "gemm", summary = "product of f16 rows with f16 weights on the matrix units",
                                    lowest_target = "sm_80";
  struct Args {
    ptx::DevicePtr<float> y;      // (m, y_stride), 8-byte aligned
    ptx::DevicePtr<f16> a;        // (m, lda), 16-byte aligned
    ptx::DevicePtr<f16> b;        // (n, ldb), 16-byte aligned
    ptx::DevicePtr<float> scale;  // (m): factor of each row of a
    ptx::DevicePtr<float> bias;   // (n), read with bias = yes only
    uint32_t m, n, k;             // k > 0
    uint32_t lda, ldb;            // multiples of 64, not below k
    uint32_t y_stride;            // even, not below n
  };
  uint32_t rows = 128, cols = 128;           // of a tile of y
  uint32_t warps_down = 2, warps_along = 4;  // a warp has rows / warps_down x cols / warps_along of it
  uint32_t depth = 64;                       // values of k per stage
  uint32_t stages = 3;                       // in flight
  uint32_t resident = 1;                     // blocks per SM to leave registers for
  uint32_t add = 0;
  uint32_t bias = 0;
  uint32_t chained = 0;
  auto operator<=>(const Gemm&) const = default;
  static auto fields() {
    using F = Field<Gemm>;
    return std::tuple(F{"rows", &Gemm::rows, one_of({16, 32, 64, 128, 256})},
                      F{"cols", &Gemm::cols, one_of({32, 64, 128, 256})},
                      F{"warps_down", &Gemm::warps_down, one_of({1, 2, 4, 8})},
                      F{"warps_along", &Gemm::warps_along, one_of({1, 2, 4, 8})},
                      F{"depth", &Gemm::depth, one_of({32, 64})}, F{"stages", &Gemm::stages, range(2, 12)},
                      F{"resident", &Gemm::resident, range(1, 4)}, F{"add", &Gemm::add, yes_or_no()},
                      F{"bias", &Gemm::bias, yes_or_no()}, F{"chained", &Gemm::chained, yes_or_no()});
  }

  uint32_t threads() const { return warps_down * warps_along * 32; }
  uint32_t shared_bytes() const { return stages * (rows + cols) * depth * 2; }

  ptx::Kernel build() const;
  // For one launch. Throws an Error if the arguments do not suit the spec.
  ptx::Grid grid(const Args& args) const;
};

// A spec for a product of this size on a GPU of `sms` SMs with `shared_bytes` of shared memory per block (227 KB from
// sm_90 on). The caller sets add, bias and chained.
Gemm gemm_choice(uint32_t m, uint32_t n, uint32_t k, uint32_t sms, uint32_t shared_bytes = 232'448);

}  // namespace heddle::kernels

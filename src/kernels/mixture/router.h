// From the residual stream to the experts of each row, in one launch: for a few rows.
#pragma once
#include <compare>
#include <optional>

#include "kernels/mixture/pick_experts.h"
#include "kernels/product/tile.h"
#include "kernels/spec/field.h"
#include "kernels/spec/gpu_limits.h"
#include "ptx/builder.h"

namespace heddle::kernels {

// Norm, product with the router, and what `route` does, by one cluster of blocks for each row. The router is f32, in
// tiles: each warp of the cluster has some of them in shared memory before the kernel waits for its predecessor. The
// first block adds up and picks.
struct Router {
  static constexpr std::string_view name = "router", summary = "norm, router and the experts of each row, for few rows",
                                    lowest_target = "sm_90";
  enum Norm : uint32_t { none, rms, layer };
  struct Args {
    ptx::DevicePtr<uint32_t> ids;       // (rows, used)
    ptx::DevicePtr<float> weights;      // (rows, used)
    ptx::DevicePtr<float> scores;       // (rows, scores_stride): products with the router's rows from `experts` on
    ptx::DevicePtr<float> x;            // (rows, x_stride), 16-byte aligned, zeros up to a multiple of 4
    ptx::DevicePtr<float> norm, shift;  // (cols): the norm's weight, and for layer its bias, padded as x
    ptx::DevicePtr<uint8_t> w;          // tiles of (router_rows, cols) f32, 16-byte aligned
    uint32_t rows, cols;
    uint32_t experts, router_rows;  // experts <= largest; router_rows: the same, or one more
    uint32_t used;                  // at most 32
    uint32_t x_stride, scores_stride;
    float epsilon;
    ptx::DevicePtr<float> bias{};          // (experts), of the logits; read with `bias`
    ptx::DevicePtr<float> choice_bias{};   // (experts); read with choice_bias
    uint32_t groups = 0, groups_used = 0;  // with groups
    float scale = 1;                       // of the weights, with scaled
    float near = 0;                        // with sparsemixer
    ptx::DevicePtr<float> scales{};        // (experts), of the weights; read with each_scaled
  };
  uint32_t tile_cols = 1024, slices = 2;
  uint32_t largest = 128;  // number of experts
  uint32_t splits = 16;    // blocks of a cluster; 16 must be allowed at launch (non-portable)
  uint32_t warps = 4, depth = 1;
  uint32_t norm = rms;
  uint32_t bias = 0;
  uint32_t score = score_softmax, choice_bias = 0, groups = no_groups;  // see Route
  uint32_t sum_to_one = 0, scaled = 0, each_scaled = 0;                 // the same
  uint32_t chained = 0;
  auto operator<=>(const Router&) const = default;
  static auto fields() {
    using F = Field<Router>;
    using S = Router;
    return std::tuple(F{"tile_cols", &S::tile_cols, one_of({256, 512, 1024})}, F{"slices", &S::slices, range(1, 64)},
                      F{"largest", &S::largest, one_of({32, 64, 128, 256, 512})},
                      F{"splits", &S::splits, one_of({2, 4, 8, 16})}, F{"warps", &S::warps, range(1, 16)},
                      F{"depth", &S::depth, range(1, 8)}, F{"norm", &S::norm, named({"none", "rms", "layer"})},
                      F{"bias", &S::bias, yes_or_no()}, F{"score", &S::score, score_kinds()},
                      F{"choice_bias", &S::choice_bias, yes_or_no()}, F{"groups", &S::groups, group_kinds()},
                      F{"sum_to_one", &S::sum_to_one, yes_or_no()}, F{"scaled", &S::scaled, yes_or_no()},
                      F{"each_scaled", &S::each_scaled, yes_or_no()}, F{"chained", &S::chained, yes_or_no()});
  }

  ptx::Kernel build() const;
  ptx::Grid grid(const Args& args) const;
};

// A shape for a router of this size; the caller sets norm, bias and how experts are picked. Nothing if x does not fit
// the registers or the shared memory.
std::optional<Router> router_choice(uint32_t experts, uint32_t router_rows, uint32_t cols, const GpuLimits& gpu = {});

}  // namespace heddle::kernels

// Many rows: weights are unpacked to f16, as many at once as fit in the scratch memory, and multiplied by a plain
// matrix product; norms, activations and the KV cache have small kernels of their own.
#include <algorithm>

#include "gpu/paths.h"
#include "kernels/product/gemm.h"
#include "kernels/product/tile_pack.h"

namespace heddle::gpu {

namespace {

class ManyRows : public Path {
 public:
  explicit ManyRows(const Resources& resources) : r_(resources) {}

  void qkv(const DeviceAttention& attention, const Rows& rows) override {
    to_half(r_, {.address = r_.work.h.address(), .stride = r_.sizes.width, .norm = &attention.norm}, r_.model.width,
            rows.count);
    for (const Weights& w : attention.qkv) multiply(w, r_.work.qkv.address(), r_.sizes.qkv, rows);
    write_heads(r_, attention, queries(attention), rows.count, false);
  }

  Queries queries(const DeviceAttention&) const override { return {r_.work.qkv.address(), r_.sizes.qkv}; }

  void feed_forward_in(const DeviceFeedForward& f, const Input& in, const Rows& rows) override {
    const auto cols = uint32_t(f.model->up.rows);
    const uint64_t inner = r_.work.inner.address();
    uint64_t up = 0;  // without a gate
    to_half(r_, in, r_.model.width, rows.count);
    if (f.joined_gate) {
      up = inner + cols * 4ull;
      multiply(f.in[0], inner, r_.sizes.inner, rows);
    } else {
      const bool gated = f.in.size() > 1;
      if (gated) up = inner + stride_of(cols) * 4ull;
      multiply(f.in[0], gated ? up : inner, r_.sizes.inner, rows);
      if (gated) multiply(f.in[1], inner, r_.sizes.inner, rows);
    }
    activate(r_, f.model->activation,
             {.y = r_.work.act.address(),
              .gate = inner,
              .up = up,
              .y_stride = r_.sizes.act,
              .in_stride = r_.sizes.inner,
              .rows = rows.count,
              .cols = cols});
  }

  Input activated(const DeviceFeedForward&) const override {
    return {.address = r_.work.act.address(), .stride = r_.sizes.act};
  }

  void store(const Weights& w, const Input& in, uint64_t y, uint32_t stride, const Rows& rows) override {
    to_half(r_, in, w.shape.cols, rows.count);
    multiply(w, y, stride, rows);
  }

  void add_to_residual(const Weights& w, const Input& in, const DeviceNorm& norm, float scale,
                       const Rows& rows) override {
    const uint32_t stride = r_.sizes.width;
    to_half(r_, in, w.shape.cols, rows.count);
    if (!norm && scale == 1) return multiply(w, r_.work.h.address(), stride, rows, true);
    multiply(w, r_.work.result.address(), stride, rows);
    norm_and_add(r_, norm, scale, rows.count);
  }

 private:
  // y = W x + bias, or y += that, of the rows in work.half.
  void multiply(const Weights& w, uint64_t y, uint32_t stride, const Rows& rows, bool add = false) {
    const uint32_t cols = w.shape.cols, ld = half_stride(cols), tile_rows = w.shape.tile_rows();
    // rows that are packed in another order are unpacked to their places, so all of them at once
    const uint64_t fit =
        w.places.empty() ? std::max<uint64_t>(r_.sizes.scratch / ld / tile_rows, 1) * tile_rows : w.shape.rows;
    for (uint64_t first = 0; first < w.shape.rows; first += fit) {
      const auto count = uint32_t(std::min<uint64_t>(fit, w.shape.rows - first));
      r_.recorder.launch(kernels::TileUnpack{.format = uint32_t(w.shape.format), .tile_cols = w.shape.tile_cols},
                         {.to = {r_.work.scratch.address()},
                          .w = {w.address()},
                          .order = {w.order.address()},
                          .rows = count,
                          .cols = cols,
                          .ld = ld,
                          .first = uint32_t(first)},
                         w.bytes() * count / w.shape.rows);
      kernels::Gemm gemm = kernels::gemm_choice(rows.count, count, cols, r_.recorder.sms());
      gemm.add = add;
      gemm.bias = !w.bias.empty();
      r_.recorder.launch(gemm, {.y = {y + (w.first_place + first) * 4},
                                .a = {r_.work.half.address()},
                                .b = {r_.work.scratch.address()},
                                .scale = {r_.work.half_scale.address()},
                                .bias = {w.placed_bias.address() + first * 4},
                                .m = rows.count,
                                .n = count,
                                .k = cols,
                                .lda = ld,
                                .ldb = ld,
                                .y_stride = stride});
    }
  }

  const Resources& r_;
};

}  // namespace

std::unique_ptr<Path> path_of_many_rows(const Resources& resources) { return std::make_unique<ManyRows>(resources); }

}  // namespace heddle::gpu

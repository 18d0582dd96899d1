// Few rows: one product does a whole phase, from the norm of its input to the residual, the activation or the KV cache.
#include "gpu/paths.h"

namespace heddle::gpu {

using kernels::Product;

namespace {

class FewRows : public Path {
 public:
  FewRows(const Resources& resources, Products& products) : r_(resources), products_(products) {}

  void qkv(const DeviceAttention& attention, const Rows& rows) override {
    const Input in{.address = r_.work.h.address(), .stride = r_.sizes.width, .norm = &attention.norm};
    const Queries q = queries(attention);
    const std::vector<Weights>& all = attention.qkv;
    if (attention.joined_qkv) {
      const Weights* second = all.size() > 1 ? &all[1] : nullptr;
      products_.product(all[0], second, in, {.kind = Product::qkv, .y = q.address, .stride = q.stride}, rows,
                        &attention);
      if (r_.q8()) write_heads(r_, attention, q, rows.count, true);
      return;
    }
    products_.product(all[0], nullptr, in, {.y = q.address, .stride = q.stride}, rows);
    for (size_t i : {1u, 2u}) {
      const uint64_t y = r_.work.qkv.address() + all[i].first_place * 4ull;
      products_.product(all[i], nullptr, in, {.y = y, .stride = r_.sizes.qkv}, rows);
    }
    write_heads(r_, attention, q, rows.count, false);
  }

  // In a buffer of its own, unless the product leaves k and v after it for a q8 cache.
  Queries queries(const DeviceAttention& attention) const override {
    if (r_.q8() && attention.joined_qkv) return {r_.work.qkv.address(), r_.sizes.qkv};
    return {r_.work.q.address(), uint32_t(attention.model->q.rows)};
  }

  void feed_forward_in(const DeviceFeedForward& f, const Input& in, const Rows& rows) override {
    if (f.in.size() == 1) {
      products_.product(f.in[0], nullptr, in,
                        {.kind = f.joined_gate ? Product::gate : Product::act,
                         .y = r_.work.act.address(),
                         .stride = r_.sizes.act,
                         .activation = activation_field(f.model->activation),
                         .bf16 = activated(f).bf16},
                        rows);
      return;
    }
    const auto cols = uint32_t(f.model->up.rows);
    const uint64_t gate = r_.work.inner.address(), up = gate + stride_of(cols) * 4ull;
    products_.product(f.in[0], nullptr, in, {.y = up, .stride = r_.sizes.inner}, rows);
    products_.product(f.in[1], nullptr, in, {.y = gate, .stride = r_.sizes.inner}, rows);
    activate(r_, f.model->activation,
             {.y = r_.work.act.address(),
              .gate = gate,
              .up = up,
              .y_stride = r_.sizes.act,
              .in_stride = r_.sizes.inner,
              .rows = rows.count,
              .cols = cols});
  }

  Input activated(const DeviceFeedForward& f) const override {
    return {.address = r_.work.act.address(),
            .stride = r_.sizes.act,
            .bf16 = f.in.size() == 1 && products_.takes_bf16(f.down)};
  }

  void store(const Weights& w, const Input& in, uint64_t y, uint32_t stride, const Rows& rows) override {
    products_.product(w, nullptr, in, {.y = y, .stride = stride}, rows);
  }

  void add_to_residual(const Weights& w, const Input& in, const DeviceNorm& norm, float scale,
                       const Rows& rows) override {
    const uint32_t stride = r_.sizes.width;
    if (!norm) {
      products_.product(w, nullptr, in,
                        {.kind = Product::add, .y = r_.work.h.address(), .stride = stride, .scale = scale}, rows);
      return;
    }
    products_.product(w, nullptr, in, {.y = r_.work.result.address(), .stride = stride}, rows);
    norm_and_add(r_, norm, scale, rows.count);
  }

 private:
  const Resources& r_;
  Products& products_;
};

}  // namespace

std::unique_ptr<Path> path_of_few_rows(const Resources& resources, Products& products) {
  return std::make_unique<FewRows>(resources, products);
}

}  // namespace heddle::gpu

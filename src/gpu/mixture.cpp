// Mixtures of experts: the router, the experts it picks for each row, and the shared expert.
#include <algorithm>

#include "gpu/forward.h"
#include "kernels/mixture/mixture.h"

namespace heddle::gpu {

using kernels::Product;

void Forward::compute(const DeviceMixture& m) {
  r_.recorder.set_phase("router");
  const uint32_t stride = stride_of(m.router.shape.rows);
  paths_.products(rows_.count)
      .product(m.router, nullptr, residual(m.norm), {.y = r_.work.router.address(), .stride = stride}, rows_);
  r_.recorder.launch(kernels::Route{.sum_to_one = m.model->routing.weights_sum_to_one},
                     {.ids = {r_.work.expert_ids.address()},
                      .weights = {r_.work.expert_weights.address()},
                      .logits = {r_.work.router.address()},
                      .rows = rows_.count,
                      .experts = uint32_t(m.model->router.rows),
                      .used = m.model->routing.used,
                      .logits_stride = stride});
  if (!m.shared) return;
  r_.recorder.set_phase("ffn_in");
  path_->feed_forward_in(*m.shared, residual(m.norm), rows_);
}

// The experts run here and not in compute(): the scratch memory has room for the results of `max_expert_rows` rows. So
// they read the residual when it is added to, and a mixture cannot run beside another sublayer.
void Forward::add(const DeviceMixture& m, float scale) {
  r_.recorder.set_phase("experts");
  if (m.shared)
    path_->store(m.shared->down, path_->activated(*m.shared), r_.work.shared.address(), r_.sizes.width, rows_);
  for (uint32_t first = 0; first < rows_.count; first += max_expert_rows)
    add_experts(m, scale, first, std::min(max_expert_rows, rows_.count - first));
  if (m.output_norm) norm_and_add(r_, m.output_norm, scale, rows_.count);
}

void Forward::add_experts(const DeviceMixture& m, float scale, uint32_t first_row, uint32_t count) {
  const uint32_t used = m.model->routing.used, vectors = count * used, first = first_row * used;
  const uint32_t inner_cols = m.down.shape.cols;
  const Input in = residual(m.norm, first_row);
  const uint64_t act = r_.work.expert_act.address(), gate = r_.work.expert_inner.address();
  const bool bf16 = m.in.size() == 1 && paths_.vectors.takes_bf16(m.down);
  const VectorProducts::Experts one_input_per_row{first, vectors, used}, each_its_own{first, vectors, 1};
  if (m.in.size() == 1) {
    paths_.vectors.experts(m.in[0], in,
                           {.kind = m.joined_experts ? Product::gate : Product::act,
                            .y = act,
                            .stride = r_.sizes.expert_act,
                            .activation = activation_field(m.model->activation),
                            .bf16 = bf16},
                           one_input_per_row);
  } else {
    const uint64_t up = gate + inner_cols * 4ull;
    paths_.vectors.experts(m.in[0], in, {.y = up, .stride = r_.sizes.expert_inner}, one_input_per_row);
    paths_.vectors.experts(m.in[1], in, {.y = gate, .stride = r_.sizes.expert_inner}, one_input_per_row);
    activate(r_, m.model->activation,
             {.y = act,
              .gate = gate,
              .up = up,
              .y_stride = r_.sizes.expert_act,
              .in_stride = r_.sizes.expert_inner,
              .rows = vectors,
              .cols = inner_cols});
  }
  paths_.vectors.experts(m.down, {.address = act, .stride = r_.sizes.expert_act, .bf16 = bf16},
                         {.y = r_.work.expert_result.address(), .stride = r_.sizes.width}, each_its_own);

  const bool norm = bool(m.output_norm);
  const uint64_t offset = uint64_t(first_row) * r_.sizes.width * 4;
  kernels::Mix::Args mix{.out = {(norm ? r_.work.result.address() : r_.work.h.address()) + offset},
                         .y = {r_.work.expert_result.address()},
                         .weights = {r_.work.expert_weights.address() + first * 4ull},
                         .shared = {r_.work.shared.address() + offset},
                         .rows = count,
                         .cols = r_.model.width,
                         .used = used,
                         .scale = norm ? 1 : scale};
  // the router's last row is that of the shared expert; without one it counts as it is
  const uint32_t stride = stride_of(m.router.shape.rows);
  const uint64_t shared_score = (uint64_t(first_row) * stride + m.model->router.rows) * 4;
  mix.shared_gate = {m.shared_gated ? r_.work.router.address() + shared_score : r_.work.always.address()};
  mix.gate_stride = m.shared_gated ? stride : 0;
  r_.recorder.launch(kernels::Mix{.add = !norm, .shared = m.shared.has_value()}, mix);
}

}  // namespace heddle::gpu

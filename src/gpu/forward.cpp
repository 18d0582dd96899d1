// All phases of a forward pass but attention, in the order of a layer.
#include "gpu/forward.h"

#include <algorithm>

#include "kernels/layer/elementwise.h"
#include "kernels/layer/embedding.h"
#include "kernels/layer/norm.h"
#include "kernels/mixture/mixture.h"

namespace heddle::gpu {

using kernels::Product;

void Forward::begin(const Rows& rows) {
  r_.recorder.begin();
  paths_.begin();
  rows_ = rows;
  path_ = &paths_.path(rows.count);
}

uint32_t Forward::longest_of(LengthClass length) const {
  switch (length) {
    case LengthClass::up_to_short:
      return short_length;
    case LengthClass::up_to_middle:
      return middle_length;
    case LengthClass::longer:
      break;
  }
  return std::max(r_.model.context, middle_length + 1);
}

Input Forward::residual(const DeviceNorm& norm, uint32_t first_row) const {
  return {.address = r_.work.h.address() + uint64_t(first_row) * r_.sizes.width * 4,
          .stride = r_.sizes.width,
          .norm = &norm};
}

void Forward::embed() {
  r_.recorder.set_phase("embed");
  auto look_up = [&](const Weights& table, uint64_t ids, float scale, bool add) {
    r_.recorder.launch(
        kernels::Embedding{.format = uint32_t(table.shape.format), .tile_cols = table.shape.tile_cols, .add = add},
        {.y = {r_.work.h.address()},
         .table = {table.address()},
         .ids = {ids},
         .tokens = rows_.count,
         .cols = r_.model.width,
         .vocabulary = table.shape.rows,
         .scale = scale});
  };
  look_up(r_.weights.embedding, r_.work.tokens.address(), r_.model.embedding_scale, false);
  if (r_.weights.positions) look_up(r_.weights.positions, r_.work.positions.address(), 1, true);
}

void Forward::compute(uint32_t layer, uint32_t sublayer) {
  r_.recorder.set_layer(int(layer));
  std::visit([&](const auto& kind) { compute(kind); }, r_.weights.layers[layer].sublayers[sublayer]);
  r_.recorder.set_layer(-1);
}

void Forward::add(uint32_t layer, uint32_t sublayer) {
  r_.recorder.set_layer(int(layer));
  const float scale = r_.model.layers[layer].residual_scale;
  std::visit([&](const auto& kind) { add(kind, scale); }, r_.weights.layers[layer].sublayers[sublayer]);
  r_.recorder.set_layer(-1);
}

void Forward::compute(const DeviceAttention& a) {
  r_.recorder.set_phase("qkv");
  path_->qkv(a, rows_);
  attend(a);
}

void Forward::add(const DeviceAttention& a, float scale) {
  r_.recorder.set_phase("output");
  const Input attended{.address = r_.work.attended.address(),
                       .stride = stride_of(a.model->heads * a.model->value_head)};
  path_->add_to_residual(a.output, attended, a.output_norm, scale, rows_);
}

void Forward::compute(const DeviceFeedForward& f) {
  r_.recorder.set_phase("ffn_in");
  path_->feed_forward_in(f, residual(f.norm), rows_);
}

void Forward::add(const DeviceFeedForward& f, float scale) {
  r_.recorder.set_phase("ffn_out");
  path_->add_to_residual(f.down, path_->activated(f), f.output_norm, scale, rows_);
}

// --- mixtures of experts --------------------------------------------------------------------------------------------
// The router, the experts it picks for each row, and the shared expert.
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

// The experts run here and not in compute(), because their buffers have room for `max_expert_rows` rows only: each
// range of rows must be added before the next is computed. They read the residual stream while it is added to, so a
// mixture cannot run in parallel with another sublayer.
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
  ExpertProducts& experts = paths_.expert_products();
  const Input in = residual(m.norm, first_row);
  const uint64_t act = r_.work.expert_act.address(), gate = r_.work.expert_inner.address();
  const bool bf16 = m.in.size() == 1 && experts.takes_bf16(m.down);
  const ExpertProducts::Experts one_input_per_row{first, vectors, used}, each_its_own{first, vectors, 1};
  if (m.in.size() == 1) {
    experts.expert_product(m.in[0], in,
                           {.kind = m.joined_experts ? Product::gate : Product::act,
                            .y = act,
                            .stride = r_.sizes.expert_act,
                            .activation = activation_field(m.model->activation),
                            .bf16 = bf16},
                           one_input_per_row);
  } else {
    const uint64_t up = gate + inner_cols * 4ull;
    experts.expert_product(m.in[0], in, {.y = up, .stride = r_.sizes.expert_inner}, one_input_per_row);
    experts.expert_product(m.in[1], in, {.y = gate, .stride = r_.sizes.expert_inner}, one_input_per_row);
    activate(r_, m.model->activation,
             {.y = act,
              .gate = gate,
              .up = up,
              .y_stride = r_.sizes.expert_act,
              .in_stride = r_.sizes.expert_inner,
              .rows = vectors,
              .cols = inner_cols});
  }
  experts.expert_product(m.down, {.address = act, .stride = r_.sizes.expert_act, .bf16 = bf16},
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
  // the router's last row weighs the shared expert; without such a row its weight is 1
  const uint32_t stride = stride_of(m.router.shape.rows);
  const uint64_t shared_score = (uint64_t(first_row) * stride + m.model->router.rows) * 4;
  mix.shared_gate = {m.shared_gated ? r_.work.router.address() + shared_score : r_.work.always.address()};
  mix.gate_stride = m.shared_gated ? stride : 0;
  r_.recorder.launch(kernels::Mix{.add = !norm, .shared = m.shared.has_value()}, mix);
}

// --- after the layers -----------------------------------------------------------------------------------------------
// The states go to work.result: the layers no longer need it, and the head, which still reads the residual stream, does
// not use it.
void Forward::keep_states() {
  r_.recorder.set_phase("states");
  const DeviceNorm& norm = r_.weights.norm;
  const uint64_t y = r_.work.result.address(), x = r_.work.h.address();
  constexpr uint32_t vec = 4;  // a width is a multiple of 8
  check(norm.kind != model::Norm::Kind::none, "a norm after the last layer");
  if (norm.kind == model::Norm::Kind::rms)
    r_.recorder.launch(kernels::RmsNorm{.vec = vec}, {.y = {y},
                                                      .x = {x},
                                                      .w = {norm.device_weight.address()},
                                                      .rows = rows_.count,
                                                      .cols = r_.model.width,
                                                      .eps = norm.epsilon});
  else
    r_.recorder.launch(kernels::LayerNorm{.vec = vec, .bias = !norm.bias.empty()}, {.y = {y},
                                                                                    .x = {x},
                                                                                    .w = {norm.device_weight.address()},
                                                                                    .b = {norm.device_bias.address()},
                                                                                    .rows = rows_.count,
                                                                                    .cols = r_.model.width,
                                                                                    .eps = norm.epsilon});
}

void Forward::logits(uint32_t first, uint32_t count, std::optional<uint32_t> from_row) {
  r_.recorder.set_phase("head");
  const uint32_t vocabulary = r_.model.vocabulary;
  const Weights& w = r_.weights.output;
  const Output out{.y = r_.work.logits.address(), .stride = vocabulary, .scale = r_.model.logit_scale};
  Input in = residual(r_.weights.norm, from_row.value_or(0));
  if (!from_row) in.list = first;
  Products& products = from_row ? paths_.products(count) : paths_.gathering_products();
  products.product(w, nullptr, in, out, {.count = count});
  if (r_.model.logit_softcap != 0)
    r_.recorder.launch(kernels::SoftcapRows{.cap = 1}, {.y = {out.y},
                                                        .rows = count,
                                                        .cols = vocabulary,
                                                        .stride = vocabulary,
                                                        .scale = 1,
                                                        .cap = r_.model.logit_softcap});
}

}  // namespace heddle::gpu

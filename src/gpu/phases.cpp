// The verbs but attention: what a layer does, in launches. Few rows take a product that does a phase at once; many rows
// take weights that were unpacked, with small kernels between.
#include "gpu/phases.h"

#include "kernels/layer/elementwise.h"
#include "kernels/layer/embedding.h"
#include "kernels/mixture/mixture.h"
#include "kernels/spec/functions.h"

namespace heddle::gpu {

using kernels::Product;

Phases::Phases(const model::Model& model, const model::Limits& limits, DeviceModel& weights, Work& work,
               const WorkSizes& sizes, std::vector<cuda::Buffer>& keys, std::vector<cuda::Buffer>& values,
               Library& library, Tuning& tuning, bool exact, bool deterministic)
    : model_(model),
      limits_(limits),
      weights_(weights),
      work_(work),
      sizes_(sizes),
      keys_(keys),
      values_(values),
      library_(library),
      tuning_(tuning),
      exact_(exact),
      deterministic_(deterministic),
      sms_(library.context().info().sms) {}

void Phases::begin(const Rows& rows) {
  plan = {}, notes.clear();
  rows_ = rows;
  large_ = false;
}

uint32_t Phases::attention_class(uint32_t longest) const {
  if (longest <= middle_length) return longest <= short_length ? short_length : middle_length;
  return std::max(model_.context, middle_length + 1);
}

namespace {

uint32_t kernel_activation(model::Activation activation) {
  switch (activation) {
    case model::Activation::silu:
      return kernels::act_silu;
    case model::Activation::gelu:
      return kernels::act_gelu_erf;
    case model::Activation::gelu_tanh:
      return kernels::act_gelu_tanh;
  }
  return kernels::act_silu;
}

}  // namespace

void Phases::compute(uint32_t layer, uint32_t sublayer) {
  layer_ = int(layer);
  std::visit([&](const auto& kind) { compute(kind); }, weights_.layers[layer].sublayers[sublayer]);
  layer_ = -1;
}

void Phases::add(uint32_t layer, uint32_t sublayer) {
  layer_ = int(layer);
  const float scale = model_.layers[layer].residual_scale;
  std::visit([&](const auto& kind) { add(kind, scale); }, weights_.layers[layer].sublayers[sublayer]);
  layer_ = -1;
}

void Phases::embed() {
  name("embed");
  auto rows_of = [&](const Weights& table, uint64_t ids, float scale, bool add) {
    const kernels::Embedding spec{
        .format = uint32_t(table.shape.format), .tile_cols = table.shape.tile_cols, .add = add, .chained = chained};
    launch(spec, {.y = {work_.h.address()},
                  .table = {table.address()},
                  .ids = {ids},
                  .tokens = rows_.count,
                  .cols = model_.width,
                  .vocabulary = table.shape.rows,
                  .scale = scale});
  };
  rows_of(weights_.embedding, work_.tokens.address(), model_.embedding_scale, false);
  if (weights_.positions) rows_of(weights_.positions, work_.positions.address(), 1, true);
}

void Phases::activate(model::Activation activation, uint64_t y, uint32_t stride, uint64_t gate, uint64_t up,
                      uint32_t in_stride, uint32_t rows, uint32_t cols) {
  const kernels::Gate spec{
      .vec = cols % 4 ? 1u : 4u, .act = kernel_activation(activation), .times_up = up != 0, .chained = chained};
  launch(spec, {.y = {y},
                .gate = {gate},
                .up = {up},
                .rows = rows,
                .cols = cols,
                .y_stride = stride,
                .gate_stride = in_stride,
                .up_stride = in_stride});
}

void Phases::feed_forward_in(const DeviceFeedForward& f, const In& in) {
  name("ffn_in");
  const auto cols = uint32_t(f.model->up.rows);
  const model::Activation activation = f.model->activation;
  const Weights& first = f.in[0];
  act_bf16_ = false;
  if (few() && f.in.size() == 1) {
    act_bf16_ = !exact_for(f.down) && !on_matrix_units(rows_.count);
    return product(first, nullptr, in,
                   {.kind = f.joined_gate ? Product::gate : Product::act,
                    .y = work_.act.address(),
                    .stride = sizes_.act,
                    .activation = kernel_activation(activation),
                    .bf16 = act_bf16_},
                   rows_.count);
  }
  const uint64_t act = work_.act.address(), inner = work_.inner.address();
  const uint64_t apart = inner + stride_of(cols) * 4ull;  // up, where it is not joined to gate
  if (few()) {
    product(first, nullptr, in, {.y = apart, .stride = sizes_.inner}, rows_.count);
    product(f.in[1], nullptr, in, {.y = inner, .stride = sizes_.inner}, rows_.count);
    return activate(activation, act, sizes_.act, inner, apart, sizes_.inner, rows_.count, cols);
  }
  halve(in, model_.width, rows_.count);
  if (f.joined_gate) {
    large_product(first, inner, sizes_.inner, false, rows_.count);
    return activate(activation, act, sizes_.act, inner, inner + cols * 4ull, sizes_.inner, rows_.count, cols);
  }
  const bool gated = f.in.size() > 1;
  large_product(first, gated ? apart : inner, sizes_.inner, false, rows_.count);
  if (gated) large_product(f.in[1], inner, sizes_.inner, false, rows_.count);
  activate(activation, act, sizes_.act, inner, gated ? apart : 0, sizes_.inner, rows_.count, cols);
}

void Phases::compute(const DeviceFeedForward& f) {
  feed_forward_in(f, {.address = work_.h.address(), .stride = sizes_.width, .norm = &f.norm});
}

void Phases::add(const DeviceFeedForward& f, float scale) {
  name("ffn_out");
  add_to_residual(f.down, {.address = work_.act.address(), .stride = sizes_.act, .bf16 = act_bf16_}, f.output_norm,
                  scale);
}

void Phases::compute(const DeviceMixture& m) {
  name("router");
  const In in{.address = work_.h.address(), .stride = sizes_.width, .norm = &m.norm};
  const uint32_t stride = stride_of(m.router.shape.rows);
  product(m.router, nullptr, in, {.y = work_.router.address(), .stride = stride}, rows_.count);
  launch(kernels::Route{.sum_to_one = m.model->routing.weights_sum_to_one, .chained = chained},
         {.ids = {work_.expert_ids.address()},
          .weights = {work_.expert_weights.address()},
          .logits = {work_.router.address()},
          .rows = rows_.count,
          .experts = uint32_t(m.model->router.rows),
          .used = m.model->routing.used,
          .logits_stride = stride});
  if (m.shared) feed_forward_in(*m.shared, in);
}

// The experts run here and not in compute(): their results would not fit all rows of a batch. So they read the residual
// when it is added to, and a mixture cannot run beside another sublayer.
void Phases::add(const DeviceMixture& m, float scale) {
  name("experts");
  const uint32_t used = m.model->routing.used;
  const model::Activation activation = m.model->activation;
  const bool norm = bool(m.output_norm);
  if (m.shared) {
    const Weights& down = m.shared->down;
    const In act{.address = work_.act.address(), .stride = sizes_.act, .bf16 = act_bf16_};
    if (few()) {
      product(down, nullptr, act, {.y = work_.shared.address(), .stride = sizes_.width}, rows_.count);
    } else {
      halve(act, down.shape.cols, rows_.count);
      large_product(down, work_.shared.address(), sizes_.width, false, rows_.count);
    }
  }
  const auto inner_cols = m.down.shape.cols;
  const bool bf16 = !exact_for(m.down) && m.in.size() == 1;
  for (uint32_t first = 0; first < rows_.count; first += expert_rows) {
    const uint32_t rows = std::min(expert_rows, rows_.count - first), vectors = rows * used;
    const In in{
        .address = work_.h.address() + uint64_t(first) * sizes_.width * 4, .stride = sizes_.width, .norm = &m.norm};
    const uint64_t act = work_.expert_act.address(), inner = work_.expert_inner.address();
    if (m.in.size() == 1) {
      expert_product(m.in[0], in, used,
                     {.kind = m.joined_experts ? Product::gate : Product::act,
                      .y = act,
                      .stride = sizes_.expert_act,
                      .activation = kernel_activation(activation),
                      .bf16 = bf16},
                     first * used, vectors);
    } else {
      expert_product(m.in[0], in, used, {.y = inner + inner_cols * 4ull, .stride = sizes_.expert_inner}, first * used,
                     vectors);
      expert_product(m.in[1], in, used, {.y = inner, .stride = sizes_.expert_inner}, first * used, vectors);
      activate(activation, act, sizes_.expert_act, inner, inner + inner_cols * 4ull, sizes_.expert_inner, vectors,
               inner_cols);
    }
    expert_product(m.down, {.address = act, .stride = sizes_.expert_act, .bf16 = bf16}, 1,
                   {.y = work_.expert_result.address(), .stride = sizes_.width}, first * used, vectors);
    const uint64_t row_bytes = uint64_t(first) * sizes_.width * 4;
    kernels::Mix::Args mix{.out = {(norm ? work_.result.address() : work_.h.address()) + row_bytes},
                           .y = {work_.expert_result.address()},
                           .weights = {work_.expert_weights.address() + first * used * 4ull},
                           .shared = {work_.shared.address() + row_bytes},
                           .rows = rows,
                           .cols = model_.width,
                           .used = used,
                           .scale = norm ? 1 : scale};
    const uint32_t stride = stride_of(m.router.shape.rows);
    mix.shared_gate = {m.shared_gated ? work_.router.address() + (uint64_t(first) * stride + m.model->router.rows) * 4
                                      : work_.always.address()};
    mix.gate_stride = m.shared_gated ? stride : 0;
    launch(kernels::Mix{.add = !norm, .shared = m.shared.has_value(), .chained = chained}, mix);
  }
  if (norm) norm_add(m.output_norm, scale);
}

void Phases::logits(uint32_t first, uint32_t count, std::optional<uint32_t> from_row) {
  name("head");
  const Weights& w = weights_.output;
  const uint64_t h = work_.h.address();
  const uint64_t y = work_.logits.address();
  const In in{
      .address = h + uint64_t(from_row.value_or(0)) * sizes_.width * 4, .stride = sizes_.width, .norm = &weights_.norm};
  const Out out{.y = y, .stride = model_.vocabulary, .scale = model_.logit_scale};
  if (from_row)
    product(w, nullptr, in, out, count);
  else
    mma_product(w, nullptr, in, out, count, nullptr, first);
  if (model_.logit_softcap != 0)
    launch(kernels::SoftcapRows{.cap = 1, .chained = chained}, {.y = {y},
                                                                .rows = count,
                                                                .cols = model_.vocabulary,
                                                                .stride = model_.vocabulary,
                                                                .scale = 1,
                                                                .cap = model_.logit_softcap});
}

}  // namespace heddle::gpu

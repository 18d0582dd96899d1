// Launches that several paths share.
#include "gpu/path.h"

#include "base/error.h"
#include "kernels/attention/heads.h"
#include "kernels/layer/elementwise.h"
#include "kernels/layer/norm.h"
#include "kernels/product/activations.h"
#include "kernels/spec/functions.h"

namespace heddle::gpu {

uint32_t norm_field(model::Norm::Kind kind) {
  switch (kind) {
    case model::Norm::Kind::none:
      return kernels::norm_none;
    case model::Norm::Kind::rms:
      return kernels::norm_rms;
    case model::Norm::Kind::layer:
      return kernels::norm_layer;
  }
  return kernels::norm_none;
}

uint32_t activation_field(model::Activation activation) {
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

void to_half(const Resources& r, const Input& in, uint32_t cols, uint32_t rows, const HalfLayout& layout) {
  check(!in.bf16, "rows of f32");
  const uint32_t slice = layout.slice_cols;
  const uint32_t ld = slice ? (cols + slice - 1) / slice * slice : half_stride(cols);
  const bool norm = in.norm && *in.norm;
  kernels::HalfRows spec = kernels::half_rows_choice(cols, in.stride, ld);
  spec.slices = slice;
  spec.norm = norm ? norm_field(in.norm->kind) : kernels::norm_none;
  spec.weight = norm;
  spec.bias = norm && !in.norm->bias.empty();
  spec.gather = in.list.has_value();
  kernels::HalfRows::Args args{.out = {r.work.half.address()},
                               .scale = {r.work.half_scale.address()},
                               .x = {in.address},
                               .rows = rows,
                               .cols = cols,
                               .x_stride = in.stride,
                               .ld = ld,
                               .group = layout.group};
  if (in.norm) {
    args.weight = {in.norm->device_weight.address()};
    args.bias = {in.norm->device_bias.address()};
    args.epsilon = in.norm->epsilon;
  }
  if (in.list) args.list = {r.work.outputs.address() + *in.list * 4ull};
  r.recorder.launch(spec, args);
}

void activate(const Resources& r, model::Activation activation, const GatedRows& rows) {
  const kernels::Gate spec{
      .vec = rows.cols % 4 ? 1u : 4u, .act = activation_field(activation), .times_up = rows.up != 0};
  r.recorder.launch(spec, {.y = {rows.y},
                           .gate = {rows.gate},
                           .up = {rows.up},
                           .rows = rows.rows,
                           .cols = rows.cols,
                           .y_stride = rows.y_stride,
                           .gate_stride = rows.in_stride,
                           .up_stride = rows.in_stride});
}

void norm_and_add(const Resources& r, const DeviceNorm& norm, float scale, uint32_t rows) {
  r.recorder.launch(kernels::NormAdd{.norm = norm_field(norm.kind), .bias = !norm.bias.empty()},
                    {.h = {r.work.h.address()},
                     .y = {r.work.result.address()},
                     .weight = {norm.device_weight.address()},
                     .bias = {norm.device_bias.address()},
                     .rows = rows,
                     .cols = r.model.width,
                     .scale = scale,
                     .epsilon = norm.epsilon});
}

void write_heads(const Resources& r, const DeviceAttention& attention, const Path::Queries& q, uint32_t rows,
                 bool finished) {
  using kernels::Heads;
  const model::Attention& a = *attention.model;
  const DeviceNorm &q_norm = attention.q_norm, &k_norm = attention.k_norm;
  const KvCache& cache = r.cache(attention);
  const uint64_t qkv = r.work.qkv.address();
  const bool over_all = (q_norm && q_norm.size != a.head) || (k_norm && k_norm.size != a.head);
  const Heads spec{.q_norm = finished ? kernels::norm_none : norm_field(q_norm.kind),
                   .k_norm = finished ? kernels::norm_none : norm_field(k_norm.kind),
                   .over = over_all ? Heads::all_heads : Heads::each_head,
                   .bias = !q_norm.bias.empty() || !k_norm.bias.empty(),
                   .rotation = finished || attention.rotary == 0           ? Heads::none
                               : a.rope.style == model::Rope::Style::pairs ? Heads::pairs
                                                                           : Heads::halves,
                   .kv = r.q8() ? kernels::kv_q8 : kernels::kv_f16};
  r.recorder.launch(spec, {.q = {q.address},
                           .k = {qkv + a.q.rows * 4},
                           .v = {qkv + (a.q.rows + a.k.rows) * 4},
                           .q_weight = {q_norm.device_weight.address()},
                           .q_bias = {q_norm.device_bias.address()},
                           .k_weight = {k_norm.device_weight.address()},
                           .k_bias = {k_norm.device_bias.address()},
                           .turns = {attention.turns.address()},
                           .positions = {r.work.positions.address()},
                           .sequences = {r.work.sequences.address()},
                           .table = {r.work.table.address()},
                           .k_cache = {cache.keys()},
                           .v_cache = {cache.values()},
                           .k_scale = {cache.key_scales()},
                           .v_scale = {cache.value_scales()},
                           .rows = rows,
                           .heads = a.heads,
                           .kv_heads = a.kv_heads,
                           .head = a.head,
                           .value_head = a.value_head,
                           .q_stride = q.stride,
                           .k_stride = r.sizes.qkv,
                           .v_stride = r.sizes.qkv,
                           .dimensions = attention.rotary,
                           .page_size = r.limits.block_tokens,
                           .table_stride = r.sizes.table_stride,
                           .q_epsilon = q_norm.epsilon,
                           .k_epsilon = k_norm.epsilon,
                           .magnitude = float(a.rope.magnitude)});
}

}  // namespace heddle::gpu

// The phases of a layer, and the launches around products.
#include "gpu/path.h"

#include "base/error.h"
#include "kernels/attention/heads.h"
#include "kernels/layer/cut_gate.h"
#include "kernels/layer/elementwise.h"
#include "kernels/layer/norm.h"
#include "kernels/layer/norm_across.h"
#include "kernels/product/activations.h"
#include "kernels/product/tile.h"
#include "kernels/spec/functions.h"

namespace heddle::gpu {

using kernels::Product;

uint32_t norm_field(model::Norm::Kind kind) {
  switch (kind) {
    case model::Norm::Kind::none:
      return kernels::norm_none;
    case model::Norm::Kind::rms:
      return kernels::norm_rms;
    case model::Norm::Kind::layer:
      return kernels::norm_layer;
    case model::Norm::Kind::scale:
      check(false, "a norm that the kernels have");
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
    case model::Activation::relu_squared:
      return kernels::act_relu_squared;
    case model::Activation::clamped_swiglu:
      return kernels::act_clamped_swiglu;
    case model::Activation::xielu:
      return kernels::act_xielu;
  }
  return kernels::act_silu;
}

void to_half(const Resources& r, const Input& in, const Weights& w, uint32_t rows, uint32_t group,
             const HalfRowsAt& also) {
  check(!in.bf16, "rows of f32");
  const uint32_t cols = w.shape.cols, ld = w.shape.slices() * w.shape.tile_cols;
  const bool norm = in.norm && *in.norm;
  kernels::HalfRows spec =
      kernels::half_rows_choice(cols, in.stride, ld, kernels::half_rows_together(ld, rows, r.recorder.sms()));
  spec.apart = kernels::tile_apart(w.shape.format);
  spec.also_apart = also.form.apart;
  spec.norm = norm ? norm_field(in.norm->kind) : kernels::norm_none;
  spec.weight = norm;
  spec.bias = norm && !in.norm->bias.empty();
  spec.gather = in.list != 0;
  spec.factors = in.factors != 0;
  spec.squares = in.squares != 0;
  spec.chained = r.recorder.chained();
  kernels::HalfRows::Args args{.out = {r.work.half.address()},
                               .scale = {r.work.half_scale.address()},
                               .x = {in.address},
                               .list = {in.list},
                               .rows = rows,
                               .cols = cols,
                               .x_stride = in.stride,
                               .ld = ld,
                               .group = group,
                               .squares = {in.squares},
                               .squares_count = in.late_norms,
                               .squares_stride = max_late_rows,
                               .also = {also.address},
                               .also_group = also.form.group,
                               .factors = {in.factors}};
  if (in.norm) {
    args.weight = {in.norm->device_weight.address()};
    args.bias = {in.norm->device_bias.address()};
    args.epsilon = in.norm->epsilon;
  }
  r.recorder.launch(spec, args);
}

void activate(const Resources& r, model::Activation activation, const model::Xielu& xielu, const GatedRows& rows) {
  const uint32_t up_stride = rows.up_stride ? rows.up_stride : rows.in_stride;
  const kernels::Gate spec{.vec = (rows.cols | up_stride) % 4 ? 1u : 4u,
                           .act = activation_field(activation),
                           .times_up = rows.up != 0,
                           .weighted = rows.weights != 0};
  kernels::Gate::Args args{.y = {rows.y},
                           .gate = {rows.gate},
                           .up = {rows.up},
                           .rows = rows.rows,
                           .cols = rows.cols,
                           .y_stride = rows.y_stride,
                           .gate_stride = rows.in_stride,
                           .up_stride = up_stride,
                           .weights = {rows.weights}};
  set_xielu(args, xielu);
  r.recorder.launch(spec, args);
}

void norm_rows(const Resources& r, const DeviceNorm& norm, uint64_t y, uint64_t x, uint32_t rows) {
  constexpr uint32_t vec = 4;  // a width is a multiple of 8
  check(bool(norm), "a norm");
  if (norm.kind == model::Norm::Kind::rms)
    r.recorder.launch(kernels::RmsNorm{.vec = vec}, {.y = {y},
                                                     .x = {x},
                                                     .w = {norm.device_weight.address()},
                                                     .rows = rows,
                                                     .cols = r.model.width,
                                                     .eps = norm.epsilon});
  else if (norm.kind == model::Norm::Kind::scale)
    r.recorder.launch(kernels::ScaleRows{},
                      {.y = {y}, .x = {x}, .w = {norm.device_weight.address()}, .rows = rows, .cols = r.model.width});
  else
    r.recorder.launch(kernels::LayerNorm{.vec = vec, .bias = !norm.bias.empty()}, {.y = {y},
                                                                                   .x = {x},
                                                                                   .w = {norm.device_weight.address()},
                                                                                   .b = {norm.device_bias.address()},
                                                                                   .rows = rows,
                                                                                   .cols = r.model.width,
                                                                                   .eps = norm.epsilon});
}

void norm_and_add(const Resources& r, const DeviceNorm& norm, const AddedRows& rows, uint32_t count) {
  r.recorder.launch(
      kernels::NormAdd{
          .norm = norm_field(norm.kind), .bias = !norm.bias.empty(), .also = rows.also != 0, .after = rows.after != 1},
      {.h = {rows.h},
       .y = {rows.y},
       .weight = {norm.device_weight.address()},
       .bias = {norm.device_bias.address()},
       .rows = count,
       .cols = r.model.width,
       .scale = rows.scale,
       .epsilon = norm.epsilon,
       .also = {rows.also},
       .after = rows.after});
}

void sum_norm_and_add(const Resources& r, const DeviceNorm& norm, const AddedRows& rows, uint32_t count) {
  check(!rows.also, "one row that is added");
  if (!r.ranks->adds(count) || !norm.bias.empty()) {
    r.ranks->sum(r.recorder, rows.y, uint64_t(count) * r.model.width);
    return norm_and_add(r, norm, rows, count);
  }
  r.ranks->sum_and_add(r.recorder, rows.y, count,
                       {.h = rows.h,
                        .norm = norm_field(norm.kind),
                        .weight = norm.device_weight.address(),
                        .epsilon = norm.epsilon,
                        .scale = rows.scale,
                        .after = rows.after});
}

void norm_across(const Resources& r, std::initializer_list<ColumnsAcross> all, uint32_t rows) {
  using kernels::NormAcross;
  uint32_t stride = 0;
  for (const ColumnsAcross& one : all) stride += one.norm.across->groups;
  const uint64_t sums = r.work.rank_squares.address();
  uint64_t first = sums;
  for (const ColumnsAcross& one : all) {
    const model::Norm::Across& across = *one.norm.across;
    r.recorder.launch(kernels::RankSquares{.gated = one.gate && one.gate_first},
                      {.x = {one.x},
                       .gate = {one.gate},
                       .sums = {first},
                       .rows = rows,
                       .cols = one.cols,
                       .x_stride = one.stride,
                       .gate_stride = one.gate_stride,
                       .sums_stride = stride,
                       .places = across.groups,
                       .place = across.counted ? across.group : across.groups});
    first += across.groups * 4ull;
  }
  r.ranks->sum(r.recorder, sums, uint64_t(rows) * stride);
  first = sums;
  for (const ColumnsAcross& one : all) {
    const model::Norm::Across& across = *one.norm.across;
    r.recorder.launch(NormAcross{.gate = !one.gate        ? NormAcross::none
                                         : one.gate_first ? NormAcross::first
                                                          : NormAcross::last},
                      {.x = {one.x},
                       .gate = {one.gate},
                       .weight = {one.weight},
                       .sums = {first + across.group * 4ull},
                       .rows = rows,
                       .cols = one.cols,
                       .x_stride = one.stride,
                       .gate_stride = one.gate_stride,
                       .sums_stride = stride,
                       .count = uint32_t(across.size),
                       .epsilon = one.norm.epsilon});
    first += across.groups * 4ull;
  }
}

void write_heads(const Resources& r, const DeviceAttention& attention, const Path::Queries& q, uint32_t rows,
                 bool finished) {
  using kernels::Heads;
  const model::Attention& a = *attention.model;
  const DeviceNorm &q_norm = attention.q_norm, &k_norm = attention.k_norm, &v_norm = attention.v_norm;
  const KvCache& cache = r.cache(attention);
  const uint64_t k = r.work.qkv.address() + a.q.rows * 4;
  check(!finished || (a.clamp_qkv == 0 && a.temperature.scale == 0), "no product that finishes such heads");
  const ColumnsAcross q_across{a.q_norm, q.address, q_norm.device_weight.address(), a.heads * a.head, q.stride};
  const ColumnsAcross k_across{a.k_norm, k, k_norm.device_weight.address(), a.kv_heads * a.head, r.sizes.qkv};
  if (a.q_norm.across && a.k_norm.across)
    norm_across(r, {q_across, k_across}, rows);
  else if (a.q_norm.across || a.k_norm.across)
    norm_across(r, {a.q_norm.across ? q_across : k_across}, rows);
  const auto to_do = [&](const DeviceNorm& norm, const model::Norm& of) {
    return finished || of.across ? kernels::norm_none : norm_field(norm.kind);
  };
  const bool over_all = (q_norm && q_norm.size != a.head) || (k_norm && k_norm.size != a.head);
  const Heads spec{.q_norm = to_do(q_norm, a.q_norm),
                   .k_norm = to_do(k_norm, a.k_norm),
                   .v_norm = norm_field(v_norm.kind),
                   .over = a.own_head_norms ? Heads::each_head_own
                           : over_all       ? Heads::all_heads
                                            : Heads::each_head,
                   .bias = !q_norm.bias.empty() || !k_norm.bias.empty(),
                   .rotation = finished || attention.rotary == 0           ? Heads::none
                               : a.rope.style == model::Rope::Style::pairs ? Heads::pairs
                                                                           : Heads::halves,
                   .norm_last = a.norm_after_rope && !finished,
                   .clamp = a.clamp_qkv != 0,
                   .temperature = a.temperature.scale != 0,
                   .kv = r.q8() ? kernels::kv_q8 : kernels::kv_f16,
                   .stores = !a.k                  ? Heads::nothing
                             : a.values_are_keys() ? Heads::keys_as_values
                                                   : Heads::keys_and_values};
  if (spec.leaves_q() && !spec.kv_units()) return;
  r.recorder.launch(spec, {.q = {q.address},
                           .k = {k},
                           .v = {spec.stores == Heads::keys_as_values ? k : k + a.k.rows * 4},
                           .q_weight = {q_norm.device_weight.address()},
                           .q_bias = {q_norm.device_bias.address()},
                           .k_weight = {k_norm.device_weight.address()},
                           .k_bias = {k_norm.device_bias.address()},
                           .turns = {attention.turns.address()},
                           .positions = {r.work.positions.address()},
                           .sequences = {r.work.sequences.address()},
                           .table = {r.tables(attention)},
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
                           .magnitude = float(a.rope.magnitude),
                           .largest = a.clamp_qkv,
                           .temperature = a.temperature.scale,
                           .length = a.temperature.length,
                           .offset = a.temperature.offset,
                           .v_weight = {v_norm.device_weight.address()},
                           .v_epsilon = v_norm.epsilon});
}

// --- the phases of a layer ------------------------------------------------------------------------------------------
void Path::qkv(const DeviceAttention& attention, const Input& in, const Rows& rows) {
  const Queries q = queries(attention);
  const std::vector<Weights>& all = attention.qkv;
  const Weights* second = all.size() > 1 ? &all[1] : nullptr;
  if (attention.stacked_qkv) {
    products_.product(all[0], second, in, {.y = q.address, .stride = q.stride}, rows);
    return write_heads(r_, attention, q, rows.count, false);
  }
  if (attention.joined_qkv) {
    products_.product(all[0], second, in, {.kind = Product::qkv, .y = q.address, .stride = q.stride}, rows, &attention);
    if (r_.q8()) write_heads(r_, attention, q, rows.count, true);
    return;
  }
  check(!in.late, "one product of q, k and v after a late norm");
  products_.product(all[0], nullptr, in, {.y = q.address, .stride = q.stride}, rows);
  for (size_t i = 1; i < all.size(); ++i) {
    const uint64_t y = r_.work.qkv.address() + all[i].first_place * 4ull;
    products_.product(all[i], nullptr, in, {.y = y, .stride = r_.sizes.qkv}, rows);
  }
  write_heads(r_, attention, q, rows.count, false);
}

// In a buffer of its own, unless the product leaves k and v after it for another kernel.
Path::Queries Path::queries(const DeviceAttention& attention) const {
  if (attention.stacked_qkv || (r_.q8() && attention.joined_qkv)) return {r_.work.qkv.address(), r_.sizes.qkv};
  return {r_.work.q.address(), uint32_t(attention.model->q.rows)};
}

void Path::feed_forward_in(const DeviceFeedForward& f, const Input& in, const Rows& rows, uint32_t next) {
  if (f.at_once()) {
    const Input y = activated(f, rows, next);
    products_.product(f.in[0], nullptr, in,
                      {.kind = f.joined_gate ? Product::gate : Product::act,
                       .y = y.address,
                       .stride = y.stride,
                       .activation = activation_field(f.model->activation),
                       .xielu = f.model->xielu,
                       .bf16 = y.bf16,
                       .form = y.form},
                      rows);
    return;
  }
  const auto cols = f.down.shape.cols;
  const uint64_t gate = r_.work.inner.address(), up = gate + stride_of(cols) * 4ull;
  if (f.model->token_input) {
    products_.product(f.in[0], nullptr, in, {.y = gate, .stride = r_.sizes.inner}, rows);
    return activate(r_, f.model->activation, f.model->xielu,
                    {.y = r_.work.act.address(),
                     .gate = gate,
                     .up = r_.work.inputs.address() + *f.model->token_input * cols * 4ull,
                     .y_stride = r_.sizes.act,
                     .in_stride = r_.sizes.inner,
                     .rows = rows.count,
                     .cols = cols,
                     .up_stride = r_.sizes.inputs});
  }
  products_.product(f.in[0], nullptr, in, {.y = up, .stride = r_.sizes.inner}, rows);
  products_.product(f.in[1], nullptr, in, {.y = gate, .stride = r_.sizes.inner}, rows);
  if (f.model->cutoff) {
    kernels::CutGate::Args args{.y = {r_.work.act.address()},
                                .gate = {gate},
                                .up = {up},
                                .rows = rows.count,
                                .cols = cols,
                                .y_stride = r_.sizes.act,
                                .in_stride = r_.sizes.inner,
                                .cutoff = *f.model->cutoff};
    set_xielu(args, f.model->xielu);
    return r_.recorder.launch(kernels::CutGate{.act = activation_field(f.model->activation)}, args);
  }
  activate(r_, f.model->activation, f.model->xielu,
           {.y = r_.work.act.address(),
            .gate = gate,
            .up = up,
            .y_stride = r_.sizes.act,
            .in_stride = r_.sizes.inner,
            .rows = rows.count,
            .cols = cols});
}

Input Path::activated(const DeviceFeedForward& f, const Rows& rows, uint32_t next) const {
  const bool at_once = f.at_once();
  // the buffer of gate and up is free where they are joined, and has room for whole groups of these rows
  if (const HalfForm form = products_.half_form(f.down, f.down, {.kind = next}, rows); form && at_once)
    return {.address = r_.work.inner.address(),
            .stride = f.down.shape.cols,
            .form = form,
            .scales = r_.work.act_scale.address()};
  return {.address = r_.work.act.address(), .stride = r_.sizes.act, .bf16 = at_once && products_.takes_bf16(f.down)};
}

uint32_t Path::residual_kind(const DeviceNorm& norm, bool partial) {
  return norm || partial ? Product::store : Product::add;
}

HalfForm Path::half_form(const Weights& w, const DeviceNorm& norm, bool partial, const Rows& rows) const {
  return products_.half_form(w, w, {.kind = residual_kind(norm, partial)}, rows);
}

namespace {

bool can_be_late(const DeviceNorm& norm) { return norm.kind == model::Norm::Kind::rms && norm.bias.empty(); }

}  // namespace

std::optional<Path::Forms> Path::late_forms(const DeviceAttention& attention, const Rows& rows) const {
  if (!can_be_late(attention.norm) || !(attention.joined_qkv || attention.stacked_qkv) || attention.gate ||
      attention.laurel)
    return {};
  const Output out{.kind = attention.joined_qkv ? Product::qkv : Product::store};
  Forms forms;
  for (size_t i = 0; i < attention.qkv.size(); ++i) {
    forms[i] =
        products_.half_form(attention.qkv[i], attention.qkv[0], out, rows, attention.joined_qkv ? &attention : nullptr);
    if (!forms[i]) return {};
  }
  if (forms[1] == forms[0]) forms[1] = {};
  return forms;
}

std::optional<Path::Forms> Path::late_forms(const DeviceFeedForward& f, const Rows& rows) const {
  if (!can_be_late(f.norm) || !f.at_once()) return {};
  const HalfForm form = products_.half_form(
      f.in[0], f.in[0],
      {.kind = f.joined_gate ? Product::gate : Product::act, .activation = activation_field(f.model->activation)},
      rows);
  return form ? std::optional<Forms>({form}) : std::nullopt;
}

void Path::store(const Weights& w, const Input& in, uint64_t y, uint32_t stride, const Rows& rows) {
  products_.product(w, nullptr, in, {.y = y, .stride = stride}, rows);
}

void Path::add_to_residual(const Weights& w, const Input& in, const DeviceNorm& norm, bool partial, float scale,
                           const Rows& rows, const LateNorm* late, float after) {
  const uint32_t stride = r_.sizes.width;
  if (!norm && !partial) {
    check(after == 1, "a norm before a factor of the residual stream");
    products_.product(w, nullptr, in,
                      {.kind = Product::add, .y = r_.work.h.address(), .stride = stride, .scale = scale, .late = late},
                      rows);
    return;
  }
  check(!late, "nothing between a product and the residual stream");
  products_.product(w, nullptr, in, {.y = r_.work.result.address(), .stride = stride}, rows);
  const AddedRows added{.h = r_.work.h.address(), .y = r_.work.result.address(), .scale = scale, .after = after};
  partial ? sum_norm_and_add(r_, norm, added, rows.count) : norm_and_add(r_, norm, added, rows.count);
}

}  // namespace heddle::gpu

// Products, for few rows and for many, and how their results come to the residual.
#include <algorithm>

#include "base/error.h"
#include "gpu/phases.h"
#include "kernels/layer/norm.h"
#include "kernels/product/gemm.h"
#include "kernels/product/half_rows.h"
#include "kernels/product/tile_pack.h"
#include "kernels/product/tile_piece.h"

namespace heddle::gpu {

using kernels::Product;

namespace {

constexpr uint32_t least_integer_cols = 1024;

}  // namespace

// Small models have little to gain from int8 activations, and more to lose: the fewer the terms of a sum, the less
// their roundings cancel.
bool Phases::exact_for(const Weights& w) const {
  return exact_ || w.shape.cols < least_integer_cols || !kernels::TilePiece::has_integer_dot(w.shape.format);
}

void Phases::append_product(const Product& spec, const Product::Args& args, uint64_t bytes) {
  launch(spec, args, bytes);
  large_ = !large_;  // see product_choice
}

void Phases::put_attention(Product::Args& args, const DeviceAttention& attention, uint32_t first_row,
                           uint32_t table_row, uint32_t table_stride) const {
  const model::Attention& a = *attention.model;
  args.turns = {attention.turns.address()};
  args.positions = {work_.positions.address() + first_row * 4ull};
  args.table = {work_.table.address() + uint64_t(table_row) * sizes_.table_stride * 4};
  args.k = {keys_[attention.index].address()};
  args.v = {values_[attention.index].address()};
  args.q_rows = uint32_t(a.q.rows);
  args.k_rows = uint32_t(a.k.rows);
  args.head = a.head;
  args.value_head = a.value_head;
  args.rotary = attention.rotary;
  args.kv_heads = a.kv_heads;
  args.page_size = limits_.block_tokens;
  args.table_stride = table_stride;
  args.magnitude = float(a.rope.magnitude);
}

void Phases::mma_product(const Weights& w, const Weights* second, const In& in, const Out& out, uint32_t rows,
                         const DeviceAttention* attention, std::optional<uint32_t> list) {
  const uint32_t cols = w.shape.cols;
  uint32_t done = 0, grouped = 0;
  for (const Weights* part : {&w, second}) {
    if (!part) continue;
    kernels::MmaProduct spec{.format = uint32_t(part->shape.format),
                             .out = out.kind,
                             .activation = out.activation,
                             .y_bf16 = out.bf16,
                             .bias = !w.bias.empty(),
                             .cache = !q8(),
                             .halves = attention && attention->model->rope.style == model::Rope::Style::halves,
                             .chained = chained};
    spec = kernels::mma_product_choice(spec, part->shape.rows, cols, rows, sms_);
    if (spec.columns != grouped) halve(in, cols, rows, list, spec.tile_cols, grouped = spec.columns);
    Product::Args args{.y = {out.y},
                       .residual = {out.y},
                       .x = {work_.half.address()},
                       .w = {part->address()},
                       .bias = {w.packed_bias.address()},
                       .rows = done + part->shape.rows,
                       .cols = cols,
                       .first_rows = done,
                       .y_stride = out.stride,
                       .blocks = sms_ * spec.resident,
                       .vectors = rows,
                       .scale = out.scale,
                       .magnitude = 1,
                       .scales = {work_.half_scale.address()}};
    if (attention) put_attention(args, *attention, 0, 0, sizes_.table_stride);
    launch(spec, args, part->bytes());
    done += part->shape.rows;
  }
}

void Phases::product(const Weights& w, const Weights* second, const In& in, const Out& out, uint32_t rows,
                     const DeviceAttention* attention) {
  if (on_matrix_units(rows)) return mma_product(w, second, in, out, rows, attention);
  Product what{.format = uint32_t(w.shape.format),
               .x = in.bf16 ? Product::x_bf16 : Product::x_f32,
               .norm = in.norm ? norm_kind(in.norm->kind) : 0,
               .exact = exact_for(w) || (second && exact_for(*second)),
               .out = out.kind,
               .activation = out.activation,
               .y_bf16 = out.bf16,
               .bias = !w.bias.empty(),
               .chained = chained};
  if (second) what.second = uint32_t(second->shape.format), what.mixed = 1;
  if (attention) what.halves = attention->model->rope.style == model::Rope::Style::halves, what.cache = !q8();
  const uint32_t cols = w.shape.cols, all_rows = w.shape.rows + (second ? second->shape.rows : 0);
  // vectors that are not aligned are done one by one
  const uint32_t most = in.stride % 8 ? 1 : kernels::product_max_columns(what, cols);
  if (most == 0) throw Error("a product of {} columns does not fit the GPU's registers and shared memory", cols);
  const uint64_t bytes = w.bytes() + (second ? second->bytes() : 0);
  for (uint32_t first = 0; first < rows; first += what.columns) {
    what.columns = std::min(most, rows - first);
    // the rows of one launch have tables at equal distances: row by row, or all the same
    uint32_t table_row = first, table_stride = sizes_.table_stride;
    if (attention && !rows_.row_tables) {
      table_row = rows_.sequences[first], table_stride = 0;
      for (uint32_t i = 1; i < what.columns; ++i)
        if (rows_.sequences[first + i] != table_row) what.columns = i;
    }
    const kernels::ProductChoice choice = tuning_.product(what, all_rows, cols, large_);
    Product::Args args{.y = {out.y + uint64_t(first) * out.stride * (out.bf16 ? 2 : 4)},
                       .x = {in.address + uint64_t(first) * in.stride * (in.bf16 ? 2 : 4)},
                       .w = {w.address()},
                       .bias = {w.packed_bias.address()},
                       .rows = all_rows,
                       .cols = cols,
                       .x_stride = in.stride,
                       .y_stride = out.stride,
                       .blocks = sms_ * choice.blocks_per_sm,
                       .x_share = 1,
                       .epsilon = in.norm ? in.norm->epsilon : 0,
                       .scale = out.scale,
                       .magnitude = 1};
    args.residual = args.y;
    if (in.norm) args.norm = {in.norm->device_weight.address()}, args.shift = {in.norm->device_bias.address()};
    if (second) {
      args.w2 = {second->address()}, args.first_rows = w.shape.rows;
      args.second_blocks = kernels::mixed_blocks(choice.spec, w.shape.rows, second->shape.rows, args.blocks);
    }
    if (attention) put_attention(args, *attention, first, table_row, table_stride);
    append_product(choice.spec, args, bytes);
  }
}

void Phases::expert_product(const Weights& w, const In& in, uint32_t x_share, const Out& out, uint32_t first,
                            uint32_t vectors) {
  const Product what{.format = uint32_t(w.shape.format),
                     .x = in.bf16 ? Product::x_bf16 : Product::x_f32,
                     .norm = in.norm ? norm_kind(in.norm->kind) : 0,
                     .exact = exact_for(w),
                     .out = out.kind,
                     .activation = out.activation,
                     .y_bf16 = out.bf16,
                     .experts = 1,
                     .chained = chained};
  const kernels::ProductChoice choice = tuning_.product(what, w.shape.rows, w.shape.cols, false);
  Product::Args args{.y = {out.y},
                     .x = {in.address},
                     .w = {w.address()},
                     .experts = {work_.expert_ids.address() + first * 4ull},
                     .expert_bytes = w.shape.bytes(),
                     .rows = w.shape.rows,
                     .cols = w.shape.cols,
                     .x_stride = in.stride,
                     .y_stride = out.stride,
                     .blocks = sms_ * choice.blocks_per_sm,
                     .vectors = vectors,
                     .x_share = x_share,
                     .epsilon = in.norm ? in.norm->epsilon : 0,
                     .scale = out.scale,
                     .magnitude = 1};
  if (in.norm) args.norm = {in.norm->device_weight.address()}, args.shift = {in.norm->device_bias.address()};
  append_product(choice.spec, args, w.shape.bytes() * vectors);
}

void Phases::halve(const In& in, uint32_t cols, uint32_t rows, std::optional<uint32_t> list, uint32_t slice_cols,
                   uint32_t group) {
  check(!in.bf16, "rows of f32");
  const bool norm = in.norm && *in.norm;
  const uint32_t ld = slice_cols ? (cols + slice_cols - 1) / slice_cols * slice_cols : half_stride(cols);
  kernels::HalfRows spec = kernels::half_rows_choice(cols, in.stride, ld);
  spec.slices = slice_cols;
  spec.norm = norm ? norm_kind(in.norm->kind) : 0, spec.weight = norm, spec.bias = norm && !in.norm->bias.empty();
  spec.gather = list.has_value(), spec.chained = chained;
  kernels::HalfRows::Args args{.out = {work_.half.address()},
                               .scale = {work_.half_scale.address()},
                               .x = {in.address},
                               .rows = rows,
                               .cols = cols,
                               .x_stride = in.stride,
                               .ld = ld,
                               .group = group,
                               .epsilon = in.norm ? in.norm->epsilon : 0};
  if (in.norm) args.weight = {in.norm->device_weight.address()}, args.bias = {in.norm->device_bias.address()};
  if (list) args.list = {work_.outputs.address() + *list * 4ull};
  launch(spec, args);
}

void Phases::large_product(const Weights& w, uint64_t y, uint32_t stride, bool add, uint32_t rows) {
  const uint32_t cols = w.shape.cols, ld = half_stride(cols), tile_rows = w.shape.tile_rows();
  // rows that lie in another order go to their places, so they are unpacked all at once
  const uint64_t fit =
      w.places.empty() ? std::max<uint64_t>(sizes_.scratch / ld / tile_rows, 1) * tile_rows : w.shape.rows;
  for (uint64_t first = 0; first < w.shape.rows; first += fit) {
    const auto count = uint32_t(std::min<uint64_t>(fit, w.shape.rows - first));
    const kernels::TileUnpack unpack{
        .format = uint32_t(w.shape.format), .tile_cols = w.shape.tile_cols, .chained = chained};
    launch(unpack,
           {.to = {work_.scratch.address()},
            .w = {w.address()},
            .order = {w.order.address()},
            .rows = count,
            .cols = cols,
            .ld = ld,
            .first = uint32_t(first)},
           w.bytes() * count / w.shape.rows);
    kernels::Gemm gemm = kernels::gemm_choice(rows, count, cols, sms_);
    gemm.add = add, gemm.bias = !w.bias.empty(), gemm.chained = chained;
    launch(gemm, {.y = {y + (w.first_place + first) * 4},
                  .a = {work_.half.address()},
                  .b = {work_.scratch.address()},
                  .scale = {work_.half_scale.address()},
                  .bias = {w.placed_bias.address() + first * 4},
                  .m = rows,
                  .n = count,
                  .k = cols,
                  .lda = ld,
                  .ldb = ld,
                  .y_stride = stride});
  }
}

void Phases::norm_add(const DeviceNorm& norm, float scale) {
  const kernels::NormAdd spec{.norm = norm_kind(norm.kind), .bias = !norm.bias.empty(), .chained = chained};
  launch(spec, {.h = {work_.h.address()},
                .y = {work_.result.address()},
                .weight = {norm.device_weight.address()},
                .bias = {norm.device_bias.address()},
                .rows = rows_.count,
                .cols = model_.width,
                .scale = scale,
                .epsilon = norm.epsilon});
}

void Phases::add_to_residual(const Weights& w, const In& in, const DeviceNorm& norm, float scale) {
  if (few()) {
    if (!norm)
      return product(w, nullptr, in,
                     {.kind = Product::add, .y = work_.h.address(), .stride = sizes_.width, .scale = scale},
                     rows_.count);
    product(w, nullptr, in, {.y = work_.result.address(), .stride = sizes_.width}, rows_.count);
    return norm_add(norm, scale);
  }
  halve(in, w.shape.cols, rows_.count);
  if (!norm && scale == 1) return large_product(w, work_.h.address(), sizes_.width, true, rows_.count);
  large_product(w, work_.result.address(), sizes_.width, false, rows_.count);
  norm_add(norm, scale);
}

}  // namespace heddle::gpu

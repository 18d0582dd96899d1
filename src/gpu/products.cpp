#include "gpu/products.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/product/mma_product.h"
#include "kernels/product/mma_tiles.h"
#include "kernels/product/tile.h"
#include "kernels/product/wgmma_product.h"

namespace heddle::gpu {

using kernels::Product;

namespace {

// Below this many columns int8 activations gain little and lose more: the fewer terms a sum has, the less their
// rounding errors cancel.
constexpr uint32_t min_integer_cols = 1024;

// For Product::qkv: where k and v go, and by which position they are rotated. Rows from `first_row` on; block tables
// from `table_row` on, `table_stride` apart.
void set_attention(Product::Args& args, const Resources& r, const DeviceAttention& attention, uint32_t first_row,
                   uint32_t table_row, uint32_t table_stride) {
  const model::Attention& a = *attention.model;
  args.turns = {attention.turns.address()};
  args.positions = {r.work.positions.address() + first_row * 4ull};
  args.table = {r.work.table.address() + uint64_t(table_row) * r.sizes.table_stride * 4};
  args.k = {r.cache(attention).keys()};
  args.v = {r.cache(attention).values()};
  args.q_rows = uint32_t(a.q.rows);
  args.k_rows = uint32_t(a.k.rows);
  args.head = a.head;
  args.value_head = a.value_head;
  args.rotary = attention.rotary;
  args.kv_heads = a.kv_heads;
  args.page_size = r.limits.block_tokens;
  args.table_stride = table_stride;
  args.magnitude = float(a.rope.magnitude);
}

uint32_t filled_cols(const Weights& w) { return w.shape.slices() * w.shape.tile_cols; }

bool rotates_halves(const DeviceAttention& attention) {
  return attention.model->rope.style == model::Rope::Style::halves;
}

void set_norm(Product::Args& args, const Input& in) {
  if (!in.norm) return;
  args.norm = {in.norm->device_weight.address()};
  args.shift = {in.norm->device_bias.address()};
  args.epsilon = in.norm->epsilon;
}

// The fields of mma_product, mma_tiles and wgmma_product that say what is computed. `first`: the matrix that has the
// bias of all.
template <class Spec>
Spec matrix_spec(const Resources& r, const Weights& matrix, const Weights& first, const Output& out,
                 const DeviceAttention* attention) {
  return {.format = uint32_t(matrix.shape.format),
          .out = out.kind,
          .activation = out.activation,
          .y_bf16 = out.bf16,
          .bias = !first.bias.empty(),
          .cache = !r.q8(),
          .halves = attention && rotates_halves(*attention),
          .chained = r.recorder.chained()};
}

// The arguments that the kernels of the matrix units share. `done`: rows of y before those of this matrix; `first`: the
// matrix that has the bias of all.
Product::Args matrix_args(const Resources& r, const Weights& matrix, const Weights& first, const Output& out,
                          const Rows& rows, uint32_t done, const DeviceAttention* attention) {
  Product::Args args{.y = {out.y},
                     .residual = {out.y},
                     .x = {r.work.half.address()},
                     .w = {matrix.address()},
                     .bias = {first.packed_bias.address()},
                     .rows = done + matrix.shape.rows,
                     .cols = matrix.shape.cols,
                     .first_rows = done,
                     .y_stride = out.stride,
                     .blocks = r.recorder.sms(),
                     .vectors = rows.count,
                     .scale = out.scale,
                     .magnitude = 1,
                     .scales = {r.work.half_scale.address()},
                     .sequences = {r.work.sequences.address()}};
  if (attention) set_attention(args, r, *attention, 0, 0, r.sizes.table_stride);
  return args;
}

}  // namespace

// --- one or a few vectors -------------------------------------------------------------------------------------------
bool VectorProducts::in_f32(const Weights& w, uint32_t vectors) const {
  return exact_ || w.shape.cols * vectors < min_integer_cols || !kernels::TilePiece::has_integer_dot(w.shape.format);
}

void VectorProducts::launch(const kernels::ProductChoice& choice, const Product::Args& args, uint64_t bytes) {
  r_.recorder.launch(choice.spec, args, bytes);
  large_ = !large_;
}

void VectorProducts::product(const Weights& w, const Weights* second, const Input& in, const Output& out,
                             const Rows& rows, const DeviceAttention* attention) {
  check(in.list == 0, "rows in order");
  Product what{.format = uint32_t(w.shape.format),
               .x = in.bf16 ? Product::x_bf16 : Product::x_f32,
               .norm = in.norm ? norm_field(in.norm->kind) : 0,
               .exact = in_f32(w) || (second && in_f32(*second)),
               .out = out.kind,
               .activation = out.activation,
               .y_bf16 = out.bf16,
               .bias = !w.bias.empty(),
               .chained = r_.recorder.chained()};
  if (second) {
    what.second = uint32_t(second->shape.format);
    what.mixed = 1;
  }
  if (attention) {
    what.halves = rotates_halves(*attention);
    what.cache = !r_.q8();
  }
  const uint32_t cols = w.shape.cols, all_rows = w.shape.rows + (second ? second->shape.rows : 0);
  // vectors that are not aligned are taken one by one
  const uint32_t max_columns = in.stride % 8 ? 1 : kernels::product_max_columns(what, cols);
  if (max_columns == 0) throw Error("a product of {} columns does not fit the GPU's registers and shared memory", cols);
  const uint64_t bytes = w.bytes() + (second ? second->bytes() : 0);
  for (uint32_t first = 0; first < rows.count; first += what.columns) {
    what.columns = std::min(max_columns, rows.count - first);
    // a launch finds the block tables of its rows at equal distances: a table per row, or one for all
    uint32_t table_row = first, table_stride = r_.sizes.table_stride;
    if (attention && !rows.row_tables) {
      table_row = rows.sequences[first];
      table_stride = 0;
      for (uint32_t i = 1; i < what.columns; ++i)
        if (rows.sequences[first + i] != table_row) what.columns = i;
    }
    const kernels::ProductChoice choice = r_.tuning.product(what, all_rows, cols, large_);
    Product::Args args{.y = {out.y + uint64_t(first) * out.stride * (out.bf16 ? 2 : 4)},
                       .x = {in.address + uint64_t(first) * in.stride * (in.bf16 ? 2 : 4)},
                       .w = {w.address()},
                       .bias = {w.packed_bias.address()},
                       .rows = all_rows,
                       .cols = cols,
                       .x_stride = in.stride,
                       .y_stride = out.stride,
                       .blocks = r_.recorder.sms() * choice.blocks_per_sm,
                       .x_share = 1,
                       .scale = out.scale,
                       .magnitude = 1};
    args.residual = args.y;
    set_norm(args, in);
    if (second) {
      args.w2 = {second->address()};
      args.first_rows = w.shape.rows;
      args.second_blocks = kernels::mixed_blocks(choice.spec, w.shape.rows, second->shape.rows, args.blocks);
    }
    if (attention) set_attention(args, r_, *attention, first, table_row, table_stride);
    launch(choice, args, bytes);
  }
}

Product VectorProducts::expert_spec(const Weights& w, const Input& in, const Output& out, uint32_t vectors) const {
  return {.format = uint32_t(w.shape.format),
          .x = in.bf16 ? Product::x_bf16 : Product::x_f32,
          .norm = in.norm ? norm_field(in.norm->kind) : 0,
          .exact = in_f32(w, vectors),
          .out = out.kind,
          .activation = out.activation,
          .y_bf16 = out.bf16,
          .experts = 1,
          .chained = r_.recorder.chained()};
}

// `read`: matrices of each row.
void VectorProducts::launch_experts(const Product& what, const Weights& w, const Input& in, const Output& out,
                                    const Experts& which, uint32_t read) {
  const kernels::ProductChoice choice = r_.tuning.product(what, w.shape.rows, w.shape.cols, large_);
  Product::Args args{.y = {out.y},
                     .residual = {out.y},
                     .x = {in.address},
                     .w = {w.address()},
                     .experts = {r_.work.expert_ids.address() + which.first * 4ull},
                     .expert_bytes = w.shape.bytes(),
                     .rows = w.shape.rows,
                     .cols = w.shape.cols,
                     .x_stride = in.stride,
                     .y_stride = out.stride,
                     .blocks = std::max(1u, r_.recorder.sms() * choice.blocks_per_sm / which.rows),
                     .vectors = which.rows * which.used,
                     .x_share = which.used,
                     .scale = out.scale,
                     .magnitude = 1,
                     .scales = {r_.work.expert_weights.address() + which.first * 4ull}};
  set_norm(args, in);
  launch(choice, args, w.shape.bytes() * read * which.rows);
}

void VectorProducts::expert_product(const Weights& w, const Input& in, const Output& out, const Experts& which,
                                    bool weighted) {
  Product what = expert_spec(w, in, out, 1);
  what.weighted = weighted;
  // Large, so that two blocks never share an SM: the kernels before it are small, and leave room for two small ones.
  large_ = true;
  launch_experts(what, w, in, out, which, which.used);
}

// Columns of several experts may not fit the registers and shared memory at once: then the sum is that of a few
// launches, of which all but the first add to it.
void VectorProducts::expert_sum(const Weights& w, const Input& in, const Output& out, const Experts& which) {
  Product what = expert_spec(w, in, out, which.used);
  constexpr uint32_t max_slices = 512;
  uint32_t parts = 1;
  for (; parts <= which.used; ++parts) {
    what.summed = (which.used + parts - 1) / parts;
    if (w.shape.slices() * what.summed <= max_slices && kernels::product_max_columns(what, w.shape.cols)) break;
  }
  if (parts > which.used)
    throw Error("a product of {} columns does not fit the GPU's registers and shared memory", w.shape.cols);
  const uint32_t at_once = what.summed;
  for (uint32_t done = 0; done < which.used; done += at_once) {
    what.summed = std::min(at_once, which.used - done);
    Input some = in;
    some.address += uint64_t(done) * in.stride * (in.bf16 ? 2 : 4);
    if (done) what.out = Product::add;
    launch_experts(what, w, some, out, {which.first + done, which.rows, which.used}, what.summed);
  }
}

// --- matrix units ---------------------------------------------------------------------------------------------------
void MatrixProducts::product(const Weights& w, const Weights* second, const Input& in, const Output& out,
                             const Rows& rows, const DeviceAttention* attention) {
  const uint32_t cols = w.shape.cols;
  uint32_t done = 0, grouped = 0;
  for (const Weights* matrix : {&w, second}) {
    if (!matrix) continue;
    const auto what = matrix_spec<kernels::MmaProduct>(r_, *matrix, w, out, attention);
    const kernels::MmaProduct spec =
        kernels::mma_product_choice(what, matrix->shape.rows, cols, rows.count, r_.recorder.sms());
    if (spec.columns != grouped) {
      grouped = spec.columns;
      to_half(r_, in, *matrix, rows.count, {.slices = grouped});
    }
    Product::Args args = matrix_args(r_, *matrix, w, out, rows, done, attention);
    args.blocks = r_.recorder.sms() * spec.resident;
    r_.recorder.launch(spec, args, matrix->bytes());
    done += matrix->shape.rows;
  }
}

kernels::MmaTiles TileProducts::choose(const Weights& matrix, const Weights& first, const Output& out, const Rows& rows,
                                       const DeviceAttention* attention) const {
  auto what = matrix_spec<kernels::MmaTiles>(r_, matrix, first, out, attention);
  what.by_sequence = attention && !rows.row_tables;
  kernels::MmaTiles spec =
      r_.tuning.many_vectors(what, matrix.shape.rows, matrix.shape.cols, rows.count, r_.recorder.device());
  spec.y_apart = out.form.apart;
  return spec;
}

// Columns that fill whole slices: the rest of a slice would have to be zeros.
HalfForm TileProducts::half_form(const Weights& w, uint32_t kind, const Rows& rows) const {
  if (filled_cols(w) != w.shape.cols) return {};
  return {kernels::tile_apart(w.shape.format), choose(w, w, {.kind = kind}, rows, nullptr).columns};
}

void TileProducts::product(const Weights& w, const Weights* second, const Input& in, const Output& out,
                           const Rows& rows, const DeviceAttention* attention) {
  uint32_t done = 0;
  HalfForm converted;
  for (const Weights* matrix : {&w, second}) {
    if (!matrix) continue;
    const kernels::MmaTiles spec = choose(*matrix, w, out, rows, attention);
    const HalfForm form{kernels::tile_apart(matrix->shape.format), spec.columns};
    Product::Args args = matrix_args(r_, *matrix, w, out, rows, done, attention);
    if (in.form) {
      check(in.form == form, "rows of f16 in the order of the product");
      args.x = {in.address};
      args.scales = {in.scales};
    } else if (form != converted) {
      converted = form;
      to_half(r_, in, *matrix, rows.count, {.operand = form.group});
    }
    args.blocks = r_.recorder.sms() * spec.resident;
    args.y_group = out.form.group;
    r_.recorder.launch(spec, args, matrix->bytes());
    done += matrix->shape.rows;
  }
}

kernels::WgmmaProduct WgmmaProducts::choose(const Weights& matrix, const Weights& first, const Output& out,
                                            const Rows& rows, const DeviceAttention* attention) const {
  auto what = matrix_spec<kernels::WgmmaProduct>(r_, matrix, first, out, attention);
  what.by_sequence = attention && !rows.row_tables;
  kernels::WgmmaProduct spec =
      r_.tuning.many_vectors(what, matrix.shape.rows, matrix.shape.cols, rows.count, r_.recorder.sms());
  spec.y_apart = out.form.apart;
  return spec;
}

// Columns that fill whole slices: the rest of a slice would have to be zeros.
HalfForm WgmmaProducts::half_form(const Weights& w, uint32_t kind, const Rows& rows) const {
  if (filled_cols(w) != w.shape.cols) return {};
  return {kernels::tile_apart(w.shape.format), choose(w, w, {.kind = kind}, rows, nullptr).columns};
}

void WgmmaProducts::product(const Weights& w, const Weights* second, const Input& in, const Output& out,
                            const Rows& rows, const DeviceAttention* attention) {
  struct Matrix {
    const Weights& w;
    kernels::WgmmaProduct spec;
    HalfForm form;  // of x
    uint64_t x;
  };
  std::vector<Matrix> matrices;
  for (const Weights* one : {&w, second}) {
    if (!one) continue;
    const kernels::WgmmaProduct spec = choose(*one, w, out, rows, attention);
    matrices.push_back({*one, spec, {kernels::tile_apart(one->shape.format), spec.columns}, in.address});
    if (in.form)
      check(in.form == matrices.back().form, "rows of f16 in the order of the product");
    else
      matrices.back().x = r_.work.half.address();
  }
  HalfGroups groups{.operand = matrices[0].form.group};
  bool convert_again = matrices.size() > 1 && matrices[1].form != matrices[0].form;
  // both at once, where there is room
  if (convert_again && (in.stride | w.shape.cols) % 4 == 0 && 2 * filled_cols(w) <= r_.sizes.half) {
    const uint64_t whole = (rows.count + groups.operand - 1) / groups.operand * groups.operand;
    matrices[1].x += whole * filled_cols(w) * 2;
    groups.also = matrices[1].form;
    groups.also_address = matrices[1].x;
    convert_again = false;
  }
  if (!in.form) to_half(r_, in, w, rows.count, groups);
  uint32_t done = 0;
  for (const Matrix& matrix : matrices) {
    if (done && convert_again) to_half(r_, in, matrix.w, rows.count, {.operand = matrix.form.group});
    Product::Args args = matrix_args(r_, matrix.w, w, out, rows, done, attention);
    args.x = {matrix.x};
    args.y_group = out.form.group;
    if (in.form) args.scales = {in.scales};
    r_.recorder.launch(matrix.spec, args, matrix.w.bytes());
    done += matrix.w.shape.rows;
  }
}

}  // namespace heddle::gpu

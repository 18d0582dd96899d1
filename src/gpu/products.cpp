#include "gpu/products.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/product/tile.h"

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
  args.table = {r.tables(attention) + uint64_t(table_row) * r.sizes.table_stride * 4};
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
  set_xielu(args, out.xielu);
  if (attention) set_attention(args, r, *attention, 0, 0, r.sizes.table_stride);
  return args;
}

template <class Spec>
void begin_norm(Spec& spec, Product::Args& args, const LateNorm& late) {
  const auto& [x, also] = late.x;
  spec.next_apart = x.form.apart;
  spec.next_also = also.form.apart;
  args.next_x = {x.address};
  args.next_also = {also.address};
  args.next_group = x.form.group;
  args.next_also_group = also.form.group;
  args.next_norm = {late.norm->device_weight.address()};
  args.next_squares = {late.squares};
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
               .copies = kernels::copies_on(r_.recorder.limits()),
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
  const uint32_t fitting = kernels::product_max_columns(what, cols, r_.recorder.limits());
  if (fitting == 0 && !exact_ && !in.bf16) return otherwise_.product(w, second, in, out, rows, attention);
  const uint32_t max_columns = in.stride % 8 ? std::min(fitting, 1u) : fitting;
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
    set_xielu(args, out.xielu);
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
          .copies = kernels::copies_on(r_.recorder.limits()),
          .x = in.bf16 ? Product::x_bf16 : Product::x_f32,
          .norm = in.norm ? norm_field(in.norm->kind) : 0,
          .exact = in_f32(w, vectors),
          .out = out.kind,
          .activation = out.activation,
          .y_bf16 = out.bf16,
          .bias = !w.bias.empty(),
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
                     .bias = {w.packed_bias.address()},
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
                                    Product::Weighted weighted) {
  Product what = expert_spec(w, in, out, 1);
  what.weighted = weighted;
  // Large, so that two blocks never share an SM: the kernels before it are small, and leave room for two small ones.
  large_ = true;
  launch_experts(what, w, in, out, which, which.used);
}

// Columns of several experts may not fit the registers and shared memory at once: then the sum is that of a few
// launches, of which all but the first add to it.
void VectorProducts::expert_sum(const Weights& w, const Input& in, const Output& out, const Experts& which,
                                bool weighted) {
  Product what = expert_spec(w, in, out, which.used);
  what.weighted = weighted && what.bias ? Product::weighted_result : Product::weighted_no;
  constexpr uint32_t max_slices = 512;
  uint32_t parts = 1;
  for (; parts <= which.used; ++parts) {
    what.summed = (which.used + parts - 1) / parts;
    if (w.shape.slices() * what.summed <= max_slices &&
        kernels::product_max_columns(what, w.shape.cols, r_.recorder.limits()))
      break;
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
template <>
kernels::MmaProduct MatrixProducts::choose(const kernels::MmaProduct& what, const Weights& matrix,
                                           const Rows& rows) const {
  kernels::MmaProduct copied = what;
  copied.copies = kernels::copies_on(r_.recorder.limits());
  return kernels::mma_product_choice(copied, matrix.shape.rows, matrix.shape.cols, rows.count, r_.recorder.sms(),
                                     r_.recorder.limits());
}

template <>
kernels::WgmmaProduct WgmmaProducts::choose(const kernels::WgmmaProduct& what, const Weights& matrix,
                                            const Rows& rows) const {
  return r_.tuning.many_vectors(what, matrix.shape.rows, matrix.shape.cols, rows.count, r_.recorder.sms());
}

template <>
kernels::MmaTiles TileProducts::choose(const kernels::MmaTiles& what, const Weights& matrix, const Rows& rows) const {
  return r_.tuning.many_vectors(what, matrix.shape.rows, matrix.shape.cols, rows.count, r_.recorder.device());
}

template <class Spec>
Spec UnitProducts<Spec>::spec_of(const Weights& matrix, const Weights& first, const Output& out, const Rows& rows,
                                 const DeviceAttention* attention) const {
  Spec what{.format = uint32_t(matrix.shape.format),
            .out = out.kind,
            .activation = out.activation,
            .y_bf16 = out.bf16,
            .bias = !first.bias.empty(),
            .cache = !r_.q8(),
            .halves = attention && rotates_halves(*attention),
            .chained = r_.recorder.chained()};
  if constexpr (requires { what.by_sequence; }) what.by_sequence = attention && !rows.row_tables;
  return choose(what, matrix, rows);
}

// Columns that fill whole slices: the rest of a slice would have to be zeros.
template <class Spec>
HalfForm UnitProducts<Spec>::half_form(const Weights& w, const Weights& first, const Output& out, const Rows& rows,
                                       const DeviceAttention* attention) const {
  if (filled_cols(w) != w.shape.cols) return {};
  return {kernels::tile_apart(w.shape.format), spec_of(w, first, out, rows, attention).columns};
}

template <class Spec>
void UnitProducts<Spec>::product(const Weights& w, const Weights* second, const Input& in, const Output& out,
                                 const Rows& rows, const DeviceAttention* attention) {
  struct Matrix {
    const Weights& w;
    Spec spec;
    HalfRowsAt x;
  };
  std::vector<Matrix> matrices;
  for (const Weights* one : {&w, second}) {
    if (!one) continue;
    const Spec spec = spec_of(*one, w, out, rows, attention);
    const HalfForm form{kernels::tile_apart(one->shape.format), spec.columns};
    matrices.push_back({*one, spec, {form, r_.work.half.address()}});
  }
  const HalfForm first_form = matrices[0].x.form;
  bool convert_again = false;
  if (in.form || in.late) {
    for (Matrix& matrix : matrices) {
      HalfRowsAt given{in.form, in.address};
      if (in.late) given = in.late->x[matrix.x.form != in.late->x[0].form];
      check(given.form == matrix.x.form, "rows of f16 in the order of the product");
      matrix.x = given;
    }
  } else {
    HalfRowsAt also;
    convert_again = matrices.size() > 1 && matrices[1].x.form != first_form;
    // both at once, where there is room
    if (convert_again && (in.stride | w.shape.cols) % 4 == 0 && 2 * filled_cols(w) <= r_.sizes.half) {
      const uint64_t whole = (rows.count + first_form.group - 1) / first_form.group * first_form.group;
      matrices[1].x.address += whole * filled_cols(w) * 2;
      also = matrices[1].x;
      convert_again = false;
    }
    to_half(r_, in, w, rows.count, first_form.group, also);
  }
  uint32_t done = 0;
  for (Matrix& matrix : matrices) {
    if (done && convert_again) to_half(r_, in, matrix.w, rows.count, matrix.x.form.group);
    Product::Args args = matrix_args(r_, matrix.w, w, out, rows, done, attention);
    if constexpr (requires { matrix.spec.resident; }) args.blocks *= matrix.spec.resident;
    args.x = {matrix.x.address};
    matrix.spec.y_apart = out.form.apart;
    args.y_group = out.form.group;
    if (in.form) args.scales = {in.scales};
    if (in.late) {
      matrix.spec.late_norm = 1;
      args.squares = {in.late->squares};
      args.next_squares = {in.late->next_squares};
      args.epsilon = in.late->norm->epsilon;
    }
    if (out.late) begin_norm(matrix.spec, args, *out.late);
    r_.recorder.launch(matrix.spec, args, matrix.w.bytes());
    done += matrix.w.shape.rows;
  }
}

template class UnitProducts<kernels::MmaProduct>;
template class UnitProducts<kernels::MmaTiles>;
template class UnitProducts<kernels::WgmmaProduct>;

}  // namespace heddle::gpu

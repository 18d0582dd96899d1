// Inputs of a product and the reference. Where x is in whole steps of its scale, int8 loses nothing and the bound is
// that of f32; after a norm int8 may lose half a step per value.
#include "proof/product/product_problem.h"

#include <algorithm>
#include <numeric>

#include "base/rope_frequencies.h"
#include "kernels/product/activations.h"

namespace heddle::proof {

using kernels::MmaProduct;
using kernels::Product;
using quant::Format;

ProductVectors product_vectors(Random& random, const Product& spec, uint32_t cols, uint32_t count,
                               const std::vector<float>& weight, const std::vector<float>& shift, float epsilon) {
  ProductVectors x{.stride = (cols + 7) / 8 * 8 + 8};
  const bool bf16 = spec.x == Product::x_bf16;
  x.bytes.assign(size_t(count) * x.stride * (bf16 ? 2 : 4), 0);
  for (uint32_t v = 0; v < count; ++v) {
    std::vector<double> row(cols);
    std::vector<float> values(cols);
    for (uint32_t first = 0; first < cols; first += 16) {
      const float d = std::ldexp(1.0f, int(random.below(4)) - 9);
      for (uint32_t c = first; c < std::min(cols, first + 16); ++c) {
        float q = float(int(random.below(255)) - 127);
        if (c == first) q = 127;  // so that d is what the kernel finds
        values[c] = spec.norm || spec.exact ? random.normal() : q * d;
        if (bf16) values[c] = to_f32(to_bf16(values[c]));
      }
    }
    for (uint32_t c = 0; c < cols; ++c) {
      if (bf16) {
        const auto bits = to_bf16(values[c]);
        std::memcpy(x.bytes.data() + (size_t(v) * x.stride + c) * 2, &bits, 2);
      } else {
        std::memcpy(x.bytes.data() + (size_t(v) * x.stride + c) * 4, &values[c], 4);
      }
      row[c] = values[c];
    }
    if (spec.norm) {
      double mean = 0, squares = 0;
      if (spec.norm == Product::layer) mean = std::accumulate(row.begin(), row.end(), 0.0) / cols;
      for (double r : row) squares += (r - mean) * (r - mean);
      const double factor = 1 / std::sqrt(squares / cols + epsilon);
      for (uint32_t c = 0; c < cols; ++c)
        row[c] = (row[c] - mean) * factor * weight[c] + (spec.norm == Product::layer ? shift[c] : 0);
    }
    std::vector<double> step(cols, 0);
    for (uint32_t first = 0; !spec.exact && spec.norm && first < cols; first += 16) {
      double largest = 0;
      for (uint32_t c = first; c < std::min(cols, first + 16); ++c) largest = std::max(largest, std::abs(row[c]));
      for (uint32_t c = first; c < std::min(cols, first + 16); ++c) step[c] = largest / 127 * 0.501;
    }
    x.values.push_back(std::move(row));
    x.step.push_back(std::move(step));
  }
  return x;
}

ProductWeights product_weights(Random& random, Format format, uint32_t rows, uint32_t cols, uint32_t tile_cols,
                               Quants quants) {
  return {random_blocks(random, format, size_t(rows) * cols, cols, quants), {format, rows, cols, tile_cols}};
}

ProductSum product_sum(const ProductWeights& w, uint32_t r, const std::vector<double>& x,
                       const std::vector<double>& step) {
  const DecodedRow row = decode_row(w.shape.format, w.row(r), w.shape.cols);
  ProductSum sum;
  for (uint32_t c = 0; c < w.shape.cols; ++c) {
    sum.value += double(row.w[c]) * x[c];
    sum.scale += (std::abs(double(row.w[c]) - row.offset[c]) + std::abs(double(row.offset[c]))) * std::abs(x[c]);
    sum.moved += std::abs(double(row.w[c])) * step[c];
  }
  return sum;
}

void set_xielu(Product::Args& args) {
  args.xielu_positive = xielu_of_cases[0];
  args.xielu_negative = xielu_of_cases[1];
  args.xielu_beta = xielu_of_cases[2];
  args.xielu_epsilon = xielu_of_cases[3];
}

Activated activated(uint32_t which, double x, double error) {
  const double size = std::abs(x) + error, rounding = 1e-6 * std::abs(x);
  const auto [positive, negative, beta, epsilon] = xielu_of_cases;
  switch (which) {
    case kernels::act_silu:
      return {x / (1 + std::exp(-x)), error * 1.2 + rounding};
    case kernels::act_gelu_erf:
      return {0.5 * x * std::erfc(-x / std::sqrt(2.0)), error * 1.2 + rounding};
    case kernels::act_gelu_tanh:
      return {0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))), error * 1.2 + rounding};
    case kernels::act_relu_squared:
      return {x > 0 ? x * x : 0, 2 * size * error + x * x * 0x1p-23};
    case kernels::act_clamped_swiglu:
      return {std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0))), error * 1.2 + rounding};
    default:  // xielu
      return {x > 0 ? x * (positive * x + beta) : negative * (std::expm1(std::min(x, double(epsilon))) - x) + beta * x,
              (2 * positive * size + negative + beta) * (error + 2 * rounding)};
  }
}

Activated gated(uint32_t which, double gate, double gate_error, double up, double up_error) {
  const Activated a = activated(which, gate, gate_error);
  if (which == kernels::act_clamped_swiglu) up = std::clamp(up, -7.0, 7.0) + 1;
  // up is rounded when 1 is added to it
  return {a.value * up, a.error * (std::abs(up) + up_error) + (up_error + 0x1p-21) * std::abs(a.value)};
}

namespace {

// Vectors as the matrix units take them: halves in the kernel's order, divided by a power of two.
struct HalfVectors {
  std::vector<f16> values;
  std::vector<float> scales;
};
// The values of x become those of the halves.
template <class Spec>
HalfVectors half_vectors(const Spec& spec, const std::vector<float>& scales, ProductVectors& x, uint32_t cols) {
  const uint32_t ld = spec.slices * spec.tile_cols, count = uint32_t(x.values.size()), group = spec.columns;
  // what is behind the last vector is never zeroed
  HalfVectors h{.values = std::vector<f16>(size_t((count + group - 1) / group) * group * ld, to_f16(NAN)),
                .scales = scales};
  for (uint32_t v = 0; v < count; ++v)
    for (uint32_t c = 0; c < ld; ++c) {
      const f16 half = to_f16(c < cols ? float(x.values[v][c]) / h.scales[v] : 0.0f);
      h.values[kernels::operand_place(v, c, kernels::tile_apart(spec.weights()), group, ld)] = half;
      if (c < cols) x.values[v][c] = double(to_f32(half)) * h.scales[v];
    }
  return h;
}

class ProductProblem {
 public:
  ProductProblem(const Product& spec, const ProductShape& shape, Machine& m, Random& random)
      : spec_(spec), s_(shape), m_(m), random_(random), count_(spec.columns), first_rows_(s_.rows - s_.second_rows) {
    first_ = product_weights(random, spec.weights(), first_rows_, s_.cols, spec.tile_cols, s_.quants);
    if (spec.mixed) second_ = product_weights(random, spec.second_weights(), s_.second_rows, s_.cols, spec.tile_cols);
    std::vector<float> weight(s_.cols + 15, 0.0f), shift(s_.cols + 15, 0.0f);
    for (uint32_t c = 0; c < s_.cols; ++c) {
      weight[c] = random.uniform(0.5f, 1.5f);
      shift[c] = random.normal() * 0.1f;
    }
    x_ = product_vectors(random, spec, s_.cols, count_, weight, shift, epsilon);
    bias_ = random.normals(s_.rows, 0.5f);
    outputs_ = is_gate() ? s_.rows / 2 : is_qkv() && spec.cache ? s_.heads * s_.head : s_.rows;
    y_stride_ = spec.y_apart || spec.next_apart ? outputs_ : outputs_ + 3;
    residual_ = random.normals(size_t(count_) * y_stride_);
    make_cache();
    set_args(weight, shift);
  }

  void launch(std::optional<MatrixSpec> units) {
    if (!units) return m_.launch(spec_, args_);
    // these kernels round weights, their scales and mins to f16; the matrix unit's sums are truncated, not rounded
    halving_ = spec_.weights() == Format::f16 && !spec_.mixed ? 0x1p-18 : 0x1p-10 * 1.01;
    std::vector<float> scales;
    for (uint32_t v = 0; v < count_; ++v) scales.push_back(std::ldexp(1.0f, int(random_.below(5)) - 2));
    args_.vectors = count_;
    set_next();
    std::visit(
        [&](auto matrix) {
          if (matrix.late_norm)
            scales = late_factors();
          else
            args_.scales = m_.put(scales);
          launch_matrix(matrix, scales);
        },
        *units);
  }

  void compare(Check& check) {
    y_ = m_.get(args_.y, y_size());
    for (uint32_t v = 0; v < count_; ++v) is_qkv() ? expect_heads(v) : expect_rows(v);
    check.near("y", got_, want_, bound_, 1.0);
    if (spec_.next_apart) compare_next(check);
    if (!mean_squares_.empty()) compare_next_scales(check);
  }

 private:
  static constexpr float epsilon = 1e-5f, scale = 0.75f, magnitude = 1.125f;
  static constexpr uint32_t page = 16;    // positions
  static constexpr uint32_t y_group = 8;  // rows of y with y_apart

  // Whole groups of rows; as f16 they need half of it.
  size_t y_size() const { return size_t(count_ + y_group - 1) / y_group * y_group * y_stride_; }

  void launch_matrix(auto spec, const std::vector<float>& scales) {
    auto launch_with = [&](uint32_t first, uint32_t end) {
      args_.x = {m_.put(half_vectors(spec, scales, x_, s_.cols).values).address};
      args_.first_rows = first;
      args_.rows = end;
      m_.launch(spec, args_);
    };
    launch_with(0, first_rows_);
    if (!spec_.mixed) return;
    args_.w = args_.w2;
    spec.format = spec_.second;
    launch_with(first_rows_, s_.rows);
  }

  // --- late norms ---
  // next_apart: places for the rows of the next product, in two orders, and for their squares.
  void set_next() {
    for (uint32_t v = 0; v < count_; ++v)
      next_squares_.push_back({.sum = 0, .scale = std::ldexp(1.0f, int(random_.below(9)) - 4)});
    args_.next_squares = m_.put(next_squares_);
    if (!spec_.next_apart) return;
    next_norm_ = random_.normals(s_.rows);
    args_.next_norm = m_.put(next_norm_);
    args_.next_x = m_.poisoned<f16>(y_size());
    args_.next_also = m_.poisoned<f16>(y_size() * 2);
    args_.next_group = y_group;
    args_.next_also_group = 2 * y_group;
  }
  // Squares of any size, and the factors that follow from them.
  std::vector<float> late_factors() {
    std::vector<kernels::RowSquares> squares;
    std::vector<float> factors;
    for (uint32_t v = 0; v < count_; ++v) {
      const float scale = std::ldexp(1.0f, int(random_.below(12)) - 8);
      const double sum = std::exp(random_.normal()) * s_.cols / 16;
      squares.push_back({.sum = uint64_t(sum * kernels::squares_unit), .scale = scale});
      mean_squares_.push_back(sum / scale / scale / s_.cols + double(epsilon));
      factors.push_back(float(1 / std::sqrt(mean_squares_.back()) / scale));
    }
    args_.squares = m_.put(squares);
    return factors;
  }
  void compare_next(Check& check) {
    const std::vector<kernels::RowSquares> squares = m_.get(args_.next_squares, count_);
    const std::vector<f16> x = m_.get(args_.next_x, y_size());
    std::vector<f16> also;
    if (spec_.next_also) also = m_.get(args_.next_also, y_size() * 2);
    std::vector<float> got, sums;
    std::vector<double> want, bound, want_sums, sum_bound;
    for (uint32_t v = 0; v < count_; ++v) {
      double sum = 0;
      const double scale = next_squares_[v].scale;
      for (uint32_t r = 0; r < s_.rows; ++r) {
        const double scaled = double(y_[size_t(v) * y_stride_ + r]) * scale;
        sum += scaled * scaled;
        want.push_back(std::clamp(scaled * next_norm_[r], -65504.0, 65504.0));
        bound.push_back(std::abs(want.back()) * 0x1p-11 * 1.001 + 0x1p-25);
        const f16 value = x[kernels::operand_place(v, r, spec_.next_apart, y_group, y_stride_)];
        got.push_back(to_f32(value));
        if (!spec_.next_also) continue;
        const f16 again = also[kernels::operand_place(v, r, spec_.next_also, 2 * y_group, y_stride_)];
        check.that(to_f32(again) == to_f32(value), fmt::format("x[{}][{}] differs in the second order", v, r));
      }
      sums.push_back(float(double(squares[v].sum) / kernels::squares_unit));
      want_sums.push_back(sum);
      sum_bound.push_back(sum * 0x1p-20 + s_.rows / double(kernels::squares_unit));
      check.that(squares[v].scale == next_squares_[v].scale, fmt::format("the scale of vector {} has changed", v));
    }
    check.near("next x", got, want, bound, 1.0);
    check.near("sums of squares", sums, want_sums, sum_bound, 1.0);
  }
  // A power of two that brings the root of the mean square to 2^-6, or up to twice that.
  void compare_next_scales(Check& check) {
    const std::vector<kernels::RowSquares> squares = m_.get(args_.next_squares, count_);
    for (uint32_t v = 0; v < count_; ++v) {
      int power = 0;
      const double root = std::sqrt(mean_squares_[v]) * squares[v].scale * 64;
      check.that(std::frexp(squares[v].scale, &power) == 0.5f && root > 1 - 1e-5 && root < 2 + 1e-5,
                 fmt::format("the scale of vector {} is {}", v, squares[v].scale));
      check.that(squares[v].sum == 0, fmt::format("the sum of vector {} has changed", v));
    }
  }

  bool is_qkv() const { return spec_.out == Product::qkv; }
  bool is_gate() const { return spec_.out == Product::gate; }

  // qkv: every vector is of a sequence of its own, with three pages in any order.
  void make_cache() {
    const uint32_t pages = 3 * count_;
    for (uint32_t v = 0; v < count_; ++v) {
      positions_.push_back(random_.below(3 * page));
      for (uint32_t i = 0; i < 3; ++i) table_.push_back(int32_t((v * 3 + i) * 7 % pages));
    }
    if (is_qkv() && pages % 7 == 0) std::iota(table_.begin(), table_.end(), 0);
    for (uint32_t i = 0; i < s_.rotary / 2; ++i) rope_.radians.push_back(std::pow(10000.0, -2.0 * i / s_.rotary));
    cache_values_ = size_t(pages) * s_.kv_heads * page * s_.head;
  }

  // qkv: packed row -> row of the model, over q, k and v.
  std::vector<uint32_t> packed_rows() const {
    std::vector<uint32_t> rows;
    const uint32_t turned = (s_.heads + s_.kv_heads) * s_.head;
    for (uint32_t p = 0; p < s_.rows; ++p)
      rows.push_back(p < turned ? p / s_.head * s_.head + kernels::qkv_row(p % s_.head, s_.rotary, spec_.halves) : p);
    return rows;
  }

  void set_args(const std::vector<float>& weight, const std::vector<float>& shift) {
    std::vector<uint32_t> order;
    if (is_qkv()) order = packed_rows();
    std::vector<float> packed_bias = bias_;
    for (uint32_t p = 0; p < order.size(); ++p) packed_bias[p] = bias_[order[p]];
    order.resize(std::min<size_t>(order.size(), first_rows_));
    args_ = {.y = m_.poisoned<float>(y_size()),
             .residual = m_.put(residual_),
             .x = m_.put(x_.bytes),
             .norm = m_.put(weight),
             .shift = m_.put(shift),
             .w = m_.put(tiles_of(first_.shape, first_.file, order)),
             .bias = m_.put(packed_bias),
             .turns = m_.put(rope_.turns()),
             .positions = m_.put(positions_),
             .table = m_.put(table_),
             .k = m_.poisoned<uint8_t>(cache_values_ * 2),
             .v = m_.poisoned<uint8_t>(cache_values_ * 2),
             .rows = s_.rows,
             .cols = s_.cols,
             .first_rows = first_rows_,
             .second_blocks = spec_.mixed ? kernels::mixed_blocks(spec_, first_rows_, s_.second_rows, s_.blocks) : 0,
             .x_stride = x_.stride,
             .y_stride = y_stride_,
             .blocks = s_.blocks,
             .q_rows = s_.heads * s_.head,
             .k_rows = s_.kv_heads * s_.head,
             .head = s_.head,
             .value_head = s_.head,
             .rotary = s_.rotary,
             .kv_heads = s_.kv_heads,
             .page_size = page,
             .table_stride = 3,
             .epsilon = epsilon,
             .scale = scale,
             .magnitude = magnitude,
             .y_group = y_group};
    set_xielu(args_);
    if (spec_.mixed) args_.w2 = m_.put(tiles_of(second_.shape, second_.file));
  }

  ProductSum sum_at(uint32_t r, uint32_t v) const {
    ProductSum sum = r < first_rows_ ? product_sum(first_, r, x_.values[v], x_.step[v])
                                     : product_sum(second_, r - first_rows_, x_.values[v], x_.step[v]);
    if (spec_.bias) {
      sum.value += bias_[r];
      sum.scale += std::abs(bias_[r]);
    }
    return sum;
  }
  // A lane rounds about 40 times for its 32 values (as f32: once each), then come the lanes and the slices; a norm adds
  // a few roundings to every value of x.
  double error_of(const ProductSum& sum) const {
    const double rounding = (spec_.exact ? 80 : 24) + spec_.slices + (spec_.norm ? 16 : 0);
    return sum.scale * (rounding * 0x1p-24 + halving_) + sum.moved;
  }

  void expect(float is, double should, double error) {
    got_.push_back(is);
    want_.push_back(should);
    bound_.push_back(error);
  }

  // q in y, k and v in the cache.
  void expect_heads(uint32_t v) {
    auto halves = [&](ptx::DevicePtr<uint8_t> cache) {
      return m_.get(ptx::DevicePtr<f16>{cache.address}, cache_values_);
    };
    const std::vector<f16> keys = halves(args_.k), values = halves(args_.v);
    const uint32_t slot = uint32_t(table_[v * 3 + positions_[v] / page]);
    const uint32_t q_rows = s_.heads * s_.head, turned_rows = q_rows + s_.kv_heads * s_.head;
    for (uint32_t r = 0; r < s_.rows; ++r) {
      const uint32_t of = r < turned_rows ? r : r - turned_rows, in = of % s_.head;
      const ProductSum sum = sum_at(r, v);
      double value = sum.value, error = error_of(sum);
      if (r < turned_rows && in < s_.rotary) {
        const uint32_t half = s_.rotary / 2, pair = spec_.halves ? in % half : in / 2;
        const bool is_second = spec_.halves ? in >= half : in % 2;
        const uint32_t partner = spec_.halves ? (is_second ? r - half : r + half) : (is_second ? r - 1 : r + 1);
        const ProductSum other = sum_at(partner, v);
        const double angle = double(positions_[v]) * rope_.radians[pair];
        const double c = std::cos(angle) * magnitude, sn = std::sin(angle) * magnitude;
        value = is_second ? other.value * sn + sum.value * c : sum.value * c - other.value * sn;
        error = (error + error_of(other)) * magnitude + (sum.scale + other.scale) * 0x1p-21;
      }
      if (r < q_rows || !spec_.cache) {
        expect(y_[size_t(v) * y_stride_ + r], value, error);
        continue;
      }
      const uint32_t head = (r < turned_rows ? r - q_rows : of) / s_.head;
      const size_t at = ((size_t(slot) * s_.kv_heads + head) * page + positions_[v] % page) * s_.head + in;
      expect(to_f32(r < turned_rows ? keys[at] : values[at]), value, error + std::abs(value) * 0x1p-11 + 0x1p-25);
    }
  }

  float output(uint32_t v, uint32_t o) const {
    const size_t at = size_t(v) * y_stride_ + o;
    if (spec_.y_apart) {
      f16 half;
      const uint64_t place = kernels::operand_place(v, o, spec_.y_apart, y_group, y_stride_);
      std::memcpy(&half, reinterpret_cast<const uint8_t*>(y_.data()) + place * 2, 2);
      return to_f32(half) * Product::f16_act;
    }
    if (!spec_.y_bf16) return y_[at];
    bf16 half;
    std::memcpy(&half, reinterpret_cast<const uint8_t*>(y_.data()) + at * 2, 2);
    return to_f32(half);
  }
  void expect_rows(uint32_t v) {
    const double rounding = spec_.y_bf16 ? 0x1p-8 : spec_.y_apart ? 0x1p-11 * 1.001 : 0x1p-22;
    const double least = spec_.y_apart ? 0x1p-25 * Product::f16_act : 0;  // half of the smallest f16
    for (uint32_t o = 0; o < outputs_; ++o) {
      const float is = output(v, o);
      if (is_gate()) {
        const uint32_t gate_row = o / 2 * 4 + o % 2;
        const ProductSum gate = sum_at(gate_row, v), up = sum_at(gate_row + 2, v);
        const Activated a = gated(spec_.activation, gate.value, error_of(gate), up.value, error_of(up));
        expect(is, a.value, a.error + std::abs(a.value) * rounding + least);
        continue;
      }
      const ProductSum sum = sum_at(o, v);
      if (spec_.out == Product::act) {
        const Activated a = activated(spec_.activation, sum.value, error_of(sum));
        expect(is, a.value, a.error + std::abs(a.value) * rounding + least);
      } else {
        const double before = spec_.out == Product::add ? residual_[size_t(v) * y_stride_ + o] : 0;
        expect(is, before + scale * sum.value, scale * error_of(sum) + std::abs(before) * 0x1p-23);
      }
    }
  }

  const Product& spec_;
  const ProductShape& s_;
  Machine& m_;
  Random& random_;
  const uint32_t count_, first_rows_;
  uint32_t outputs_, y_stride_;
  ProductWeights first_, second_;
  ProductVectors x_;
  std::vector<float> bias_, residual_;
  std::vector<uint32_t> positions_;
  std::vector<int32_t> table_;
  RopeFrequencies rope_;
  size_t cache_values_ = 0;  // of k, and of v
  Product::Args args_{};
  std::vector<kernels::RowSquares> next_squares_;  // before the launch
  std::vector<float> next_norm_;
  std::vector<double> mean_squares_;  // late_norm: with epsilon
  double halving_ = 0;                // what the rounding to f16 adds, of the magnitudes
  std::vector<float> y_, got_;
  std::vector<double> want_, bound_;
};

}  // namespace

void run_product(const Product& spec, const ProductShape& shape, Machine& m, Random& random, Check& check,
                 std::optional<MatrixSpec> units) {
  ProductProblem problem(spec, shape, m, random);
  problem.launch(units);
  problem.compare(check);
}

std::string shape_text(const ProductShape& s, uint32_t vectors, Format second) {
  std::string text = fmt::format("{} -> {} vectors={} blocks={}", s.cols, s.rows, vectors, s.blocks);
  if (s.second_rows) text += fmt::format(" ({} in {})", s.second_rows, quant::name(second));
  if (s.heads) text += fmt::format(" heads={}/{} of {} rotary={}", s.heads, s.kv_heads, s.head, s.rotary);
  if (s.quants != Quants::random) text += s.quants == Quants::ones ? " ones" : " zeros";
  return text;
}

void run_special_sums(const Product& spec, Machine& m, Check& check, std::optional<MatrixSpec> units) {
  const std::vector<float>& specials = beyond_f16();
  const uint32_t head = uint32_t(specials.size()), rows = 3 * head, cols = spec.tile_cols, page = 16, position = 5;
  const kernels::TileShape shape{Format::f32, rows, cols, spec.tile_cols};
  std::vector<float> bias;
  for (uint32_t part = 0; part < 3; ++part) bias.insert(bias.end(), specials.begin(), specials.end());
  const std::vector<f16> before(page * head, f16{0x5a5a});
  const auto keys = m.put(before), values = m.put(before);
  const size_t x_bytes = size_t(units ? 32 : 1) * cols * 4;  // a group of vectors at least
  const Product::Args args{.y = m.poisoned<float>(head),
                           .x = m.put(std::vector<uint8_t>(x_bytes)),
                           .w = m.put(std::vector<uint8_t>(shape.bytes())),
                           .bias = m.put(bias),
                           .positions = m.put(std::vector<uint32_t>{position}),
                           .table = m.put(std::vector<int32_t>{0}),
                           .k = {keys.address},
                           .v = {values.address},
                           .rows = rows,
                           .cols = cols,
                           .x_stride = cols,
                           .y_stride = head,
                           .blocks = 1,
                           .vectors = 1,
                           .q_rows = head,
                           .k_rows = head,
                           .head = head,
                           .value_head = head,
                           .rotary = 0,
                           .kv_heads = 1,
                           .page_size = page,
                           .table_stride = 1,
                           .scale = 1,
                           .magnitude = 1,
                           .scales = m.put(std::vector<float>{1})};
  if (units)
    std::visit([&](const auto& matrix) { m.launch(matrix, args); }, *units);
  else
    m.launch(spec, args);
  std::vector<f16> want = before;
  std::ranges::copy(within_f16(specials), want.begin() + position * head);
  check.equal("k", one_nan(m.get(keys, before.size())), want);
  check.equal("v", one_nan(m.get(values, before.size())), want);
  const std::vector<float> q = m.get(args.y, head);  // f32: as they are
  for (uint32_t i = 0; i < head; ++i)
    check.that(std::isnan(specials[i]) ? std::isnan(q[i]) : q[i] == specials[i],
               fmt::format("q[{}] is {}, not {}", i, q[i], specials[i]));
}

}  // namespace heddle::proof

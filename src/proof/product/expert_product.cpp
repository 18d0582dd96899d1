// Products with a matrix per vector, picked by a list: a result for each vector, or the sum over those of a row.
#include "proof/product/expert_product.h"

#include <cmath>
#include <cstring>

#include "kernels/product/wgmma_product.h"
#include "proof/product/product_problem.h"

namespace heddle::proof {

namespace {

using kernels::Product;
using kernels::WgmmaProduct;
using quant::Format;

class ExpertProblem {
 public:
  ExpertProblem(const Product& spec, const ExpertShape& shape, Machine& m, Random& random)
      : spec_(spec), s_(shape), m_(m), vectors_(shape.inputs * shape.used) {
    constexpr uint32_t count = 5;
    std::vector<uint8_t> tiles;
    for (uint32_t e = 0; e < count; ++e) {
      matrices_.push_back(product_weights(random, spec.weights(), s_.rows, s_.cols, spec.tile_cols));
      const std::vector<uint8_t> one = tiles_of(matrices_[e].shape, matrices_[e].file);
      tiles.insert(tiles.end(), one.begin(), one.end());
    }
    std::vector<float> norm(s_.cols + 15, 0.0f);
    for (uint32_t c = 0; c < s_.cols; ++c) norm[c] = random.uniform(0.5f, 1.5f);
    x_ = product_vectors(random, spec, s_.cols, spec.summed ? vectors_ : s_.inputs, norm, {}, epsilon);
    for (uint32_t v = 0; v < vectors_; ++v) ids_.push_back(s_.one_for_all ? 3 : random.below(count));
    weights_ = random.normals(vectors_);
    bias_ = random.normals(size_t(count) * s_.rows);
    outputs_ = spec.out == Product::gate ? s_.rows / 2 : s_.rows;
    y_stride_ = outputs_ + 3;
    results_ = spec.summed ? s_.inputs : vectors_;
    residual_ = random.normals(size_t(results_) * y_stride_);
    args_ = {.y = m.poisoned<float>(size_t(results_) * y_stride_),
             .residual = m.put(residual_),
             .x = m.put(x_.bytes),
             .norm = m.put(norm),
             .w = m.put(tiles),
             .bias = m.put(bias_),
             .experts = m.put(ids_),
             .expert_bytes = matrices_[0].shape.bytes(),
             .rows = s_.rows,
             .cols = s_.cols,
             .x_stride = x_.stride,
             .y_stride = y_stride_,
             .blocks = s_.blocks,
             .vectors = vectors_,
             .x_share = s_.used,
             .epsilon = epsilon,
             .scale = scale,
             .scales = m.put(weights_)};
    set_xielu(args_);
  }

  void run(Check& check) {
    m_.launch(spec_, args_);
    y_ = m_.get(args_.y, size_t(results_) * y_stride_);
    for (uint32_t v = 0; v < results_; ++v)
      for (uint32_t o = 0; o < outputs_; ++o) spec_.summed ? expect_sum(v, o) : expect_one(v, o);
    check.near("y", got_, want_, bound_, 1.0);
  }

 private:
  static constexpr float epsilon = 1e-5f, scale = 0.75f;

  double error_of(const ProductSum& sum) const {
    const double rounding = (spec_.exact ? 80 : 24) + spec_.slices + (spec_.norm ? 16 : 0);
    return sum.scale * rounding * 0x1p-24 + sum.moved;
  }
  float output(uint32_t v, uint32_t o) const {
    const size_t at = size_t(v) * y_stride_ + o;
    if (!spec_.y_bf16) return y_[at];
    bf16 half;
    std::memcpy(&half, reinterpret_cast<const uint8_t*>(y_.data()) + at * 2, 2);
    return to_f32(half);
  }
  void expect(uint32_t v, uint32_t o, double value, double error) {
    got_.push_back(output(v, o));
    want_.push_back(value);
    bound_.push_back(error + std::abs(value) * (spec_.y_bf16 ? 0x1p-8 : 0x1p-22));
  }

  void expect_sum(uint32_t input, uint32_t r) {
    ProductSum all;
    for (uint32_t v = input * s_.used; v < input * s_.used + spec_.summed; ++v) {
      const ProductSum one = product_sum(matrices_[ids_[v]], r, x_.values[v], x_.step[v]);
      all.value += one.value;
      all.scale += one.scale;
      all.moved += one.moved;
      if (spec_.bias) add(all, bias_at(v, r) * (spec_.weighted ? weights_[v] : 1));
    }
    const double before = spec_.out == Product::add ? residual_[size_t(input) * y_stride_ + r] : 0;
    expect(input, r, before + scale * all.value, scale * error_of(all));
  }

  void expect_one(uint32_t v, uint32_t o) {
    const uint32_t input = v / s_.used;
    auto sum_at = [&](uint32_t r) {
      ProductSum sum = product_sum(matrices_[ids_[v]], r, x_.values[input], x_.step[input]);
      if (spec_.weighted == Product::weighted_input) {
        sum.value *= weights_[v];
        sum.scale *= std::abs(weights_[v]);
        sum.moved *= std::abs(weights_[v]);
      }
      if (spec_.bias) add(sum, bias_at(v, r));
      return sum;
    };
    const double weight = spec_.weighted == Product::weighted_result ? weights_[v] : 1;
    if (spec_.out == Product::store) {
      const ProductSum sum = sum_at(o);
      return expect(v, o, weight * scale * sum.value, std::abs(weight) * scale * error_of(sum));
    }
    Activated a;
    if (spec_.out == Product::act) {
      const ProductSum sum = sum_at(o);
      a = activated(spec_.activation, sum.value, error_of(sum));
    } else {
      const ProductSum gate = sum_at(o / 2 * 4 + o % 2), up = sum_at(o / 2 * 4 + o % 2 + 2);
      a = gated(spec_.activation, gate.value, error_of(gate), up.value, error_of(up));
    }
    expect(v, o, weight * a.value, std::abs(weight) * a.error);
  }
  double bias_at(uint32_t v, uint32_t r) const { return bias_[size_t(ids_[v]) * s_.rows + r]; }
  static void add(ProductSum& sum, double bias) {
    sum.value += bias;
    sum.scale += std::abs(bias);
  }

  const Product& spec_;
  const ExpertShape& s_;
  Machine& m_;
  const uint32_t vectors_;
  uint32_t outputs_, y_stride_, results_;
  std::vector<ProductWeights> matrices_;
  ProductVectors x_;
  std::vector<uint32_t> ids_;
  std::vector<float> weights_, bias_, residual_, y_, got_;
  std::vector<double> want_, bound_;
  Product::Args args_{};
};

// The experts of one phase of a decode step, in a chain: random ones of 128 for each of `inputs` rows.
Bench expert_phase(const std::string& label, Format format, uint32_t cols, uint32_t rows, uint32_t inputs,
                   const kernels::ProductChoice& choice, const std::string& variant) {
  constexpr uint32_t count = 128, used = 8;
  const Product spec = choice.spec;
  const uint64_t one_bytes = kernels::TileShape{format, rows, cols, spec.tile_cols}.bytes();
  const uint32_t vectors = inputs * used;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const std::vector<uint8_t> one = random.bytes(one_bytes * count);
    const auto w = m.put(one);
    std::vector<uint32_t> ids;  // other experts in each round, so that caches do not help
    constexpr uint32_t rounds = 64;
    for (uint32_t i = 0; i < rounds * inputs; ++i)
      for (uint32_t j = 0, first = random.below(count); j < used; ++j) ids.push_back((first + j * 17) % count);
    const auto list = m.put(ids);
    const std::vector<float> norm(cols + 8, 1.0f);
    Product::Args args{.y = m.poisoned<float>(size_t(rows) * vectors),
                       .x = m.put(std::vector<uint8_t>(size_t(cols) * 4 * vectors)),
                       .norm = m.put(norm),
                       .w = w,
                       .expert_bytes = one_bytes,
                       .rows = rows,
                       .cols = cols,
                       .x_stride = cols,
                       .y_stride = rows,
                       .blocks = std::max(1u, m.processors() * choice.blocks_per_sm / inputs),
                       .vectors = vectors,
                       .x_share = used,
                       .scale = 1,
                       .scales = m.put(std::vector<float>(vectors, 0.125f))};
    args.residual = args.y;
    return [=](Machine& now, uint32_t r) mutable {
      args.experts = {list.address + uint64_t(r % rounds) * vectors * 4};
      now.launch(spec, args);
    };
  };
  return {"product",
          fmt::format("{} {} {} -> {} x {} of {} experts, rows {}{}", label, quant::name(format), cols, rows, used,
                      count, inputs, variant),
          "sm_90",
          double(one_bytes) * vectors,
          2.0 * rows * cols * vectors,
          prepare};
}

// One phase of the experts of many rows: 8 of 128 experts for each of `inputs`, grouped in tiles of spec.columns.
Bench grouped_phase(const std::string& label, const WgmmaProduct& spec, uint32_t cols, uint32_t rows, uint32_t inputs) {
  constexpr uint32_t count = 128, used = 8;
  const Format format = spec.weights();
  const uint64_t one_bytes = kernels::TileShape{format, rows, cols, spec.tile_cols}.bytes();
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    std::vector<uint32_t> rows_of(count);
    for (uint32_t i = 0; i < inputs * used; ++i) ++rows_of[random.below(count)];
    std::vector<uint32_t> tiles;
    uint32_t slots = 0;
    for (uint32_t e = 0; e < count; ++e) {
      for (uint32_t done = 0; done < rows_of[e]; done += spec.columns)
        tiles.insert(tiles.end(), {e, slots + done, std::min(rows_of[e] - done, spec.columns), 0});
      slots += (rows_of[e] + spec.columns - 1) / spec.columns * spec.columns;  // tiles are read whole
    }
    const auto tile_count = m.put(std::vector<uint32_t>{uint32_t(tiles.size() / 4)});
    std::vector<ptx::DevicePtr<uint8_t>> w;  // two layers do not fit the L2 cache
    for (uint32_t i = 0; i < 2; ++i) w.push_back(m.put(random.bytes(one_bytes * count)));
    Product::Args args{.y = m.poisoned<float>(size_t(slots) * rows),
                       .x = {m.put(half_inputs(random, size_t(slots) * spec.filled_cols())).address},
                       .expert_bytes = one_bytes,
                       .rows = rows,
                       .cols = cols,
                       .y_stride = rows,
                       .blocks = m.processors(),
                       .vectors = slots,
                       .scale = 1,
                       .scales = m.put(std::vector<float>(slots, 1.0f)),
                       .tiles = {m.put(tiles).address},
                       .tile_count = tile_count};
    return [=](Machine& now, uint32_t r) mutable {
      args.w = w[r % w.size()];
      now.launch(spec, args);
    };
  };
  return {"wgmma_product",
          fmt::format("{} {} {} -> {} x {} experts, rows {}, columns={} row_groups={} col_groups={} stages={} "
                      "runs={}",
                      label, quant::name(format), cols, rows, count, inputs, spec.columns, spec.row_groups,
                      spec.col_groups, spec.stages, spec.runs),
          "sm_90a",
          double(one_bytes) * count,
          2.0 * rows * cols * inputs * used,
          prepare};
}

}  // namespace

void run_expert_product(const Product& spec, const ExpertShape& shape, Machine& m, Random& random, Check& check) {
  ExpertProblem(spec, shape, m, random).run(check);
}

void add_expert_product_benches(std::vector<Bench>& all) {
  const Product in{.norm = Product::rms, .out = Product::gate, .y_bf16 = 1, .experts = 1, .weighted = 1, .chained = 1};
  const Product down{.x = Product::x_bf16, .out = Product::add, .experts = 1, .summed = 8, .chained = 1};
  auto phases = [&](const std::string& label, Product what, Format format, uint32_t cols, uint32_t rows, bool large) {
    what.format = uint32_t(format);
    for (uint32_t inputs : {1u, 2u, 4u, 8u})
      all.push_back(
          expert_phase(label, format, cols, rows, inputs, kernels::product_choice(what, rows, cols, large), ""));
    const std::vector<kernels::ProductChoice> shapes = kernels::product_candidates(what, rows, cols, large);
    for (size_t i = 1; i < shapes.size(); ++i) {
      const Product& s = shapes[i].spec;
      all.push_back(expert_phase(
          label, format, cols, rows, 1, shapes[i],
          fmt::format(", unit={} groups={} per_warp={} depth={} resident={} room={} late={} "
                      "blocks={}",
                      s.unit, s.groups, s.per_warp, s.depth, s.resident, s.room, s.late, shapes[i].blocks_per_sm)));
    }
  };
  auto grouped = [&](const std::string& label, WgmmaProduct what, Format format, uint32_t cols, uint32_t rows) {
    what.format = uint32_t(format);
    constexpr uint32_t sms = 132, shapes = 6;
    // as many rows as the busiest experts have, and half of them
    for (const auto& [inputs, of_expert] : {std::pair{16u, 8u},
                                            {64u, 8u},
                                            {64u, 16u},
                                            {512u, 32u},
                                            {512u, 64u},
                                            {2048u, 64u},
                                            {2048u, 128u},
                                            {2048u, 256u}}) {
      uint32_t taken = 0;
      for (const WgmmaProduct& spec : kernels::wgmma_product_candidates(what, rows, cols, of_expert, sms))
        if (spec.columns == of_expert && taken++ < shapes)
          all.push_back(grouped_phase(label, spec, cols, rows, inputs));
    }
  };
  grouped("30B-A3B gate", {.out = Product::gate, .experts = 1, .chained = 1}, Format::q4_k, 2048, 1536);
  grouped("30B-A3B down", {.out = Product::store, .experts = 1, .chained = 1}, Format::q4_k, 768, 2048);
  grouped("30B-A3B down", {.out = Product::store, .experts = 1, .chained = 1}, Format::q6_k, 768, 2048);
  phases("30B-A3B gate", in, Format::q4_k, 2048, 1536, true);
  phases("30B-A3B down", down, Format::q4_k, 768, 2048, false);
  phases("30B-A3B down", down, Format::q6_k, 768, 2048, false);
}

}  // namespace heddle::proof

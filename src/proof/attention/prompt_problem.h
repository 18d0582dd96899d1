// Inputs of attention to prompts: new tokens of several sequences over a paged KV cache, with their f64 reference. What
// must not be read (positions behind the last token or before the first one's window, pages of no sequence) is NaN, and
// table entries of absent pages are out of range, so that reading them shows.
#pragma once
#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>

#include "kernels/attention/prompt_attention.h"
#include "proof/attention/attention_problem.h"
#include "proof/bench.h"

namespace heddle::proof {

// New tokens of a sequence, and how many were in the cache before.
struct PromptPiece {
  uint32_t before, rows;
};
struct PromptShape {
  uint32_t heads = 2, kv_heads = 1;
  std::vector<PromptPiece> pieces;  // per sequence
  uint32_t page_size = 16;
  uint32_t window = 0;  // 0: none
  float softcap = 0;    // 0: none
  float size = 1.5f;    // of q: spreads the scores
  bool whole = false;   // q, k and v so that scores in base 2 are whole numbers: weights are exact then
  uint32_t chunk = 0;   // 0: none
  bool bidirectional = false, sinks = false, slopes = false;

  Sight sight() const {
    return {.window = window, .chunk = chunk, .bidirectional = bidirectional, .sinks = sinks, .slopes = slopes};
  }
  std::string text() const {
    std::string t = fmt::format("heads={}/{}", heads, kv_heads);
    for (auto [before, rows] : pieces) t += fmt::format(" {}+{}", before, rows);
    if (page_size != 16) t += fmt::format(" page_size={}", page_size);
    t += sight().text();
    if (softcap > 0) t += fmt::format(" softcap={}", softcap);
    return t + (whole ? " whole numbers" : "");
  }
};

class PromptProblem {
 public:
  // What the problem depends on in the spec of a kernel.
  struct Kernel {
    uint32_t head_dim, tile_rows, kv;
    bool exact_q;
    uint32_t value_dim = 0;  // 0: head_dim
    uint32_t values() const { return value_dim ? value_dim : head_dim; }
  };
  PromptProblem(Machine& m, Random& random, const PromptShape& shape, const Kernel& kernel)
      : spec_(kernel), shape_(shape), heads_(random, shape.sight(), shape.heads) {
    check(!shape.whole || (!shape.sinks && !shape.slopes), "sinks and slopes that are no whole numbers");
    // 1 / log2(e): scores in base 2 are then the products themselves
    scale_ = shape.whole ? float(std::numbers::ln2) : 1 / std::sqrt(float(kernel.head_dim));
    for (auto [before, rows] : shape.pieces) rows_ += rows;
    q_stride_ = shape.heads * kernel.head_dim + 6;
    out_stride_ = shape.heads * kernel.values() + 2;
    q_.assign(size_t(rows_) * q_stride_, std::numeric_limits<float>::quiet_NaN());
    for (size_t r = 0; r < rows_; ++r)
      for (uint32_t c = 0; c < shape.heads * kernel.head_dim; ++c)
        q_[r * q_stride_ + c] = shape.whole ? sparse(random, 2) : random.normal() * shape.size;
    for (auto [before, rows] : shape.pieces)
      for (auto* all : {&k_, &v_}) {
        const uint32_t dim = all == &k_ ? kernel.head_dim : kernel.values();
        all->emplace_back(size_t(before + rows) * shape.kv_heads * dim);
        for (float& x : all->back())
          x = !shape.whole ? to_f32(to_f16(random.normal())) : all == &k_ ? sparse(random, 2) : sparse(random, 9);
      }
    place(m, random);
    // what the matrix units are given of a q8 cache
    for (auto* all : {&k_, &v_})
      for (auto& values : *all)
        for (float& x : values) x = to_f32(to_f16(x));
    solve();
  }

  // Poisoned outputs, and what must come out of them.
  void run(Machine& m, Check& check, const auto& spec) {
    const std::vector<float> before(size_t(rows_) * out_stride_, std::bit_cast<float>(0xcccccccc));
    args_.out = m.put(before);
    m.launch(spec, args_);
    const std::vector<float> got = m.get(args_.out, before.size());
    std::vector<float> values, rest;
    const uint32_t width = shape_.heads * spec_.values();
    for (size_t i = 0; i < got.size(); ++i) (i % out_stride_ < width ? values : rest).push_back(got[i]);
    check.near("out", values, want_, allowed_, 1);
    check.equal("behind the heads", rest, std::vector<float>(rest.size(), before.empty() ? 0 : before[0]));
  }

 private:
  // Mostly 0, else a whole number up to `limit` in magnitude.
  static float sparse(Random& random, uint32_t limit) {
    return random.below(4) ? 0.0f : float(random.below(2 * limit + 1)) - float(limit);
  }
  void place(Machine& m, Random& random) {
    const uint32_t page = shape_.page_size, kv_heads = shape_.kv_heads;
    const size_t sequences = shape_.pieces.size();
    uint32_t stride = 1;
    for (auto [before, rows] : shape_.pieces) stride = std::max(stride, (before + rows + page - 1) / page + 1);
    std::vector<int32_t> order(sequences * stride), table(order.size(), 0x7fffffff);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(uint32_t(i))]);
    const size_t cache_rows = order.size() * kv_heads * page;
    KvRows k(cache_rows, spec_.head_dim, spec_.kv), v(cache_rows, spec_.values(), spec_.kv);
    std::vector<kernels::PromptTile> tiles;
    std::vector<uint32_t> lengths;
    uint32_t row = 0;
    for (uint32_t s = 0; s < sequences; ++s) {
      const auto [before, rows] = shape_.pieces[s];
      for (uint32_t p = shape_.sight().first(before); p < before + rows; ++p) {
        const size_t at = s * stride + p / page;
        table[at] = order[at];
        for (uint32_t h = 0; h < kv_heads; ++h) {
          const size_t to = (size_t(order[at]) * kv_heads + h) * page + p % page;
          const size_t from = size_t(p) * kv_heads + h;
          k.put(to, &k_[s][from * spec_.head_dim]);
          v.put(to, &v_[s][from * spec_.values()]);
        }
      }
      // tiles of all sizes, one of them empty
      for (uint32_t done = 0; done < rows;) {
        const uint32_t limit = std::min(rows - done, spec_.tile_rows);
        const uint32_t now = shape_.heads % 2 ? limit : 1 + random.below(limit);
        tiles.push_back({s, row + done, now, before + done});
        done += now;
      }
      tiles.push_back({0x7fffffff, row, 0, 5});
      lengths.resize(tiles.size(), before + rows);
      row += rows;
    }
    args_ = {{.q = m.put(q_),
              .k = m.put(k.bytes),
              .v = m.put(v.bytes),
              .table = m.put(table),
              .heads = shape_.heads,
              .kv_heads = kv_heads,
              .q_stride = q_stride_,
              .out_stride = out_stride_,
              .page_size = page,
              .table_stride = stride,
              .window = shape_.window,
              .scale = scale_,
              .softcap = shape_.softcap,
              .chunk = shape_.chunk},
             m.put(tiles),
             uint32_t(tiles.size()),
             m.put(lengths)};
    heads_.put(m, args_);
    if (spec_.kv == kernels::kv_q8) {
      args_.k_scale = m.put(k.scales);
      args_.v_scale = m.put(v.scales);
    }
  }

  // How far a score may be off. Every value of q is rounded to 11 bits on its own (22 with exact_q), so that errors add
  // up as a random walk: 3 times 2^-11 of the root of the sum of squares is more than 5 of its standard deviations. A
  // product of 16 rounds to 17 * 2^-23 of the magnitudes so far, and a slope times a distance to 2^-22 of itself.
  double score_error(double squares, double magnitudes, double sloped) const {
    const double rounding = shape_.whole ? 0 : spec_.exact_q ? 0x1p-21 : 3 * 0x1p-11;
    return rounding * std::sqrt(squares) * scale_ + 17 * 0x1p-23 * magnitudes * scale_ + 1e-6 * shape_.softcap +
           0x1p-22 * sloped;
  }
  void solve() {
    const uint32_t dim = spec_.head_dim, kv_heads = shape_.kv_heads;
    size_t row = 0;
    for (size_t s = 0; s < shape_.pieces.size(); ++s)
      for (uint32_t i = 0; i < shape_.pieces[s].rows; ++i, ++row)
        for (uint32_t h = 0; h < shape_.heads; ++h) {
          const uint32_t own = shape_.pieces[s].before + i, kv_head = h * kv_heads / shape_.heads;
          const uint32_t begin = shape_.sight().first(own);
          const uint32_t end = shape_.sight().end(own, shape_.pieces[s].before + shape_.pieces[s].rows);
          auto at = [&](const std::vector<float>& x, uint32_t p, uint32_t size) {
            return x.data() + (size_t(begin + p) * kv_heads + kv_head) * size;
          };
          solve_row(
              q_.data() + row * q_stride_ + h * dim, end - begin, h, own - begin,
              [&](uint32_t p) { return at(k_[s], p, dim); }, [&](uint32_t p) { return at(v_[s], p, spec_.values()); });
        }
  }
  void solve_row(const float* q, uint32_t positions, uint32_t head, uint32_t own, auto&& k, auto&& v) {
    const uint32_t dim = spec_.head_dim;
    std::vector<double> weights, errors;
    for (uint32_t p = 0; p < positions; ++p) {
      double score = 0, squares = 0, magnitudes = 0;
      const float* key = k(p);
      for (uint32_t i = 0; i < dim; ++i) {
        const double product = double(q[i]) * key[i];
        score += product;
        squares += product * product;
        magnitudes += std::abs(product);
      }
      score *= scale_;
      if (shape_.softcap > 0) score = shape_.softcap * std::tanh(score / shape_.softcap);
      weights.push_back(heads_.score(score, head, own, p));
      errors.push_back(score_error(squares, magnitudes, std::abs(weights.back() - score)));
    }
    const double sum = heads_.weigh(weights, head);
    double of_sum = 0;
    for (uint32_t p = 0; p < positions; ++p) of_sum += weights[p] * errors[p];
    // a weight is rounded to 11 bits, unless it is a power of two; below 2^-28 of the largest it becomes subnormal
    const double rounding = (shape_.whole ? 0 : 0x1p-11) + 0x1p-19;
    std::vector<double> want(spec_.values()), allowed(spec_.values());
    for (uint32_t p = 0; p < positions; ++p) {
      const double weight = weights[p];
      const float* value = v(p);
      for (uint32_t i = 0; i < want.size(); ++i) {
        want[i] += weight * value[i];
        allowed[i] += std::abs(double(value[i])) * (weight * (errors[p] + of_sum + rounding) + 0x1p-39 / sum);
      }
    }
    want_.insert(want_.end(), want.begin(), want.end());
    allowed_.insert(allowed_.end(), allowed.begin(), allowed.end());
  }

  Kernel spec_;
  PromptShape shape_;
  HeadScores heads_;
  kernels::PromptAttention::Args args_{};
  float scale_ = 0;
  uint32_t rows_ = 0, q_stride_ = 0, out_stride_ = 0;
  std::vector<float> q_;
  std::vector<std::vector<float>> k_, v_;  // per sequence (positions, kv_heads, head_dim or values)
  std::vector<double> want_, allowed_;     // (rows, heads, values)
};

// The last `rows` tokens of `length`, 32 heads over 8 kv heads.
template <class Spec>
Bench prompt_bench(Spec spec, uint32_t length, uint32_t rows, const std::string& note = "") {
  constexpr uint32_t heads = 32, kv_heads = 8, page = 32;
  const uint32_t head_dim = spec.head_dim;
  uint32_t values = head_dim;
  if constexpr (requires { spec.values(); }) values = spec.values();
  spec.chained = 1;
  const double seen = double(rows) * (length - (rows - 1) / 2.0), of_both = head_dim + values;
  const double bytes = 2.0 * length * kv_heads * of_both + 4.0 * rows * heads * of_both;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const uint32_t pages = (length + page - 1) / page, width = heads * head_dim;
    std::vector<int32_t> table(pages);
    for (uint32_t i = 0; i < pages; ++i) table[i] = int32_t(pages - 1 - i);
    std::vector<kernels::PromptTile> tiles;
    for (uint32_t r = 0; r < rows; r += spec.queries)
      tiles.push_back({0, r, std::min(spec.queries, rows - r), length - rows + r});
    auto cache = [&](uint32_t size) {
      return ptx::DevicePtr<uint8_t>{m.put(half_inputs(random, size_t(pages) * page * kv_heads * size)).address};
    };
    kernels::PromptAttention::Args args{{.out = m.poisoned<float>(size_t(rows) * heads * values),
                                         .q = m.put(random.normals(size_t(rows) * width)),
                                         .k = cache(head_dim),
                                         .v = cache(values),
                                         .table = m.put(table),
                                         .heads = heads,
                                         .kv_heads = kv_heads,
                                         .q_stride = width,
                                         .out_stride = heads * values,
                                         .page_size = page,
                                         .table_stride = pages,
                                         .scale = 1 / std::sqrt(float(head_dim))},
                                        m.put(tiles),
                                        uint32_t(tiles.size())};
    if (spec.kv == kernels::kv_q8)
      args.k_scale = args.v_scale =
          m.put(std::vector<f16>(size_t(pages) * page * kv_heads * head_dim / 32, to_f16(0.01f)));
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {std::string(Spec::name),
          fmt::format("{} of {} tokens, 32 heads of {}{}", rows, length, head_dim, note),
          Spec::lowest_target == "sm_90a" ? "sm_90a" : "sm_90",
          bytes,
          2.0 * seen * heads * of_both,
          prepare};
}

}  // namespace heddle::proof

// Cases of prompt_attention. What must not be read (positions behind the last token or before the first one's window,
// pages of no sequence) is NaN, and table entries of absent pages are out of range, so that reading them shows.
#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>

#include "kernels/attention/prompt_attention.h"
#include "proof/attention/attention_problem.h"
#include "proof/bench.h"

namespace heddle::proof {

namespace {

using kernels::PromptAttention;
using kernels::PromptTile;

// New tokens of a sequence, and how many were in the cache before.
struct Piece {
  uint32_t before, rows;
};
struct PromptShape {
  uint32_t heads = 2, kv_heads = 1;
  std::vector<Piece> pieces;  // per sequence
  uint32_t page_size = 16;
  uint32_t window = 0;  // 0: none
  float softcap = 0;    // 0: none
  float size = 1.5f;    // of q: spreads the scores
  bool whole = false;   // q, k and v so that scores in base 2 are whole numbers: weights are exact then

  std::string text() const {
    std::string t = fmt::format("heads={}/{}", heads, kv_heads);
    for (auto [before, rows] : pieces) t += fmt::format(" {}+{}", before, rows);
    if (page_size != 16) t += fmt::format(" page_size={}", page_size);
    if (window) t += fmt::format(" window={}", window);
    if (softcap > 0) t += fmt::format(" softcap={}", softcap);
    return t + (whole ? " whole numbers" : "");
  }
};

class PromptProblem {
 public:
  PromptProblem(Machine& m, Random& random, const PromptAttention& spec, const PromptShape& shape)
      : spec_(spec), shape_(shape) {
    // 1 / log2(e): scores in base 2 are then the products themselves
    scale_ = shape.whole ? float(std::numbers::ln2) : 1 / std::sqrt(float(spec.head_dim));
    for (auto [before, rows] : shape.pieces) rows_ += rows;
    q_stride_ = shape.heads * spec.head_dim + 6;
    out_stride_ = shape.heads * spec.head_dim + 2;
    q_.assign(size_t(rows_) * q_stride_, std::numeric_limits<float>::quiet_NaN());
    for (size_t r = 0; r < rows_; ++r)
      for (uint32_t c = 0; c < shape.heads * spec.head_dim; ++c)
        q_[r * q_stride_ + c] = shape.whole ? sparse(random, 2) : random.normal() * shape.size;
    for (auto [before, rows] : shape.pieces)
      for (auto* all : {&k_, &v_}) {
        all->emplace_back(size_t(before + rows) * shape.kv_heads * spec.head_dim);
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
  void run(Machine& m, Check& check) {
    const std::vector<float> before(size_t(rows_) * out_stride_, std::bit_cast<float>(0xcccccccc));
    args_.out = m.put(before);
    m.launch(spec_, args_);
    const std::vector<float> got = m.get(args_.out, before.size());
    std::vector<float> values, rest;
    const uint32_t width = shape_.heads * spec_.head_dim;
    for (size_t i = 0; i < got.size(); ++i) (i % out_stride_ < width ? values : rest).push_back(got[i]);
    check.near("out", values, want_, allowed_, 1);
    check.equal("behind the heads", rest, std::vector<float>(rest.size(), before.empty() ? 0 : before[0]));
  }

 private:
  // Mostly 0, else a whole number up to `limit` in magnitude.
  static float sparse(Random& random, uint32_t limit) {
    return random.below(4) ? 0.0f : float(random.below(2 * limit + 1)) - float(limit);
  }
  uint32_t lowest(uint32_t position) const {
    return shape_.window && position + 1 > shape_.window ? position + 1 - shape_.window : 0;
  }

  void place(Machine& m, Random& random) {
    const uint32_t page = shape_.page_size, dim = spec_.head_dim, kv_heads = shape_.kv_heads;
    const size_t sequences = shape_.pieces.size();
    uint32_t stride = 1;
    for (auto [before, rows] : shape_.pieces) stride = std::max(stride, (before + rows + page - 1) / page + 1);
    std::vector<int32_t> order(sequences * stride), table(order.size(), 0x7fffffff);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(uint32_t(i))]);
    KvRows k(order.size() * kv_heads * page, dim, spec_.kv), v = k;
    std::vector<PromptTile> tiles;
    uint32_t row = 0;
    for (uint32_t s = 0; s < sequences; ++s) {
      const auto [before, rows] = shape_.pieces[s];
      for (uint32_t p = lowest(before); p < before + rows; ++p) {
        const size_t at = s * stride + p / page;
        table[at] = order[at];
        for (uint32_t h = 0; h < kv_heads; ++h) {
          const size_t to = (size_t(order[at]) * kv_heads + h) * page + p % page;
          const size_t from = (size_t(p) * kv_heads + h) * dim;
          k.put(to, &k_[s][from]);
          v.put(to, &v_[s][from]);
        }
      }
      // tiles of all sizes, one of them empty
      for (uint32_t done = 0; done < rows;) {
        const uint32_t limit = std::min(rows - done, spec_.queries);
        const uint32_t now = shape_.heads % 2 ? limit : 1 + random.below(limit);
        tiles.push_back({s, row + done, now, before + done});
        done += now;
      }
      tiles.push_back({0x7fffffff, row, 0, 5});
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
              .softcap = shape_.softcap},
             m.put(tiles),
             uint32_t(tiles.size())};
    if (spec_.kv == kernels::kv_q8) {
      args_.k_scale = m.put(k.scales);
      args_.v_scale = m.put(v.scales);
    }
  }

  // How far a score may be off. Every value of q is rounded to 11 bits on its own (22 with exact_q), so that errors add
  // up as a random walk: 3 times 2^-11 of the root of the sum of squares is more than 5 of its standard deviations. A
  // product of 16 rounds to 17 * 2^-23 of the magnitudes so far.
  double score_error(double squares, double magnitudes) const {
    const double rounding = shape_.whole ? 0 : spec_.exact_q ? 0x1p-21 : 3 * 0x1p-11;
    return rounding * std::sqrt(squares) * scale_ + 17 * 0x1p-23 * magnitudes * scale_ + 1e-6 * shape_.softcap;
  }
  void solve() {
    const uint32_t dim = spec_.head_dim, kv_heads = shape_.kv_heads;
    size_t row = 0;
    for (size_t s = 0; s < shape_.pieces.size(); ++s)
      for (uint32_t i = 0; i < shape_.pieces[s].rows; ++i, ++row)
        for (uint32_t h = 0; h < shape_.heads; ++h) {
          const uint32_t own = shape_.pieces[s].before + i, begin = lowest(own), kv_head = h * kv_heads / shape_.heads;
          auto at = [&](const std::vector<float>& x, uint32_t p) {
            return x.data() + (size_t(p) * kv_heads + kv_head) * dim;
          };
          solve_row(
              q_.data() + row * q_stride_ + h * dim, own + 1 - begin, [&](uint32_t p) { return at(k_[s], begin + p); },
              [&](uint32_t p) { return at(v_[s], begin + p); });
        }
  }
  void solve_row(const float* q, uint32_t positions, auto&& k, auto&& v) {
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
      weights.push_back(score);
      errors.push_back(score_error(squares, magnitudes));
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0, of_sum = 0;
    for (uint32_t p = 0; p < positions; ++p) {
      sum += weights[p] = std::exp(weights[p] - top);
      of_sum += weights[p] * errors[p];
    }
    of_sum /= sum;
    // a weight is rounded to 11 bits, unless it is a power of two; below 2^-28 of the largest it becomes subnormal
    const double rounding = (shape_.whole ? 0 : 0x1p-11) + 0x1p-19;
    std::vector<double> want(dim), allowed(dim);
    for (uint32_t p = 0; p < positions; ++p) {
      const double weight = weights[p] / sum;
      const float* value = v(p);
      for (uint32_t i = 0; i < dim; ++i) {
        want[i] += weight * value[i];
        allowed[i] += std::abs(double(value[i])) * (weight * (errors[p] + of_sum + rounding) + 0x1p-39 / sum);
      }
    }
    want_.insert(want_.end(), want.begin(), want.end());
    allowed_.insert(allowed_.end(), allowed.begin(), allowed.end());
  }

  PromptAttention spec_;
  PromptShape shape_;
  PromptAttention::Args args_{};
  float scale_ = 0;
  uint32_t rows_ = 0, q_stride_ = 0, out_stride_ = 0;
  std::vector<float> q_;
  std::vector<std::vector<float>> k_, v_;  // per sequence (positions, kv_heads, head_dim)
  std::vector<double> want_, allowed_;     // (rows, heads, head_dim)
};

Case prompt(PromptAttention spec, const PromptShape& shape) {
  spec.window = shape.window > 0;
  spec.softcap = shape.softcap > 0;
  auto run = [=](Machine& m, Random& random, Check& check) { PromptProblem(m, random, spec, shape).run(m, check); };
  return {"prompt_attention", field_text(spec) + " " + shape.text(), spec.splits > 1 ? "sm_90" : target_of(spec), run};
}

// The last `rows` tokens of `length`, 32 heads over 8 kv heads.
Bench prompt_attention(uint32_t head_dim, uint32_t length, uint32_t rows, uint32_t exact_q) {
  constexpr uint32_t heads = 32, kv_heads = 8, page = 64;
  kernels::PromptAttention spec = kernels::prompt_choice(head_dim, rows, exact_q);
  spec.chained = 1;
  const double seen = double(rows) * (length - (rows - 1) / 2.0);
  const double bytes = 4.0 * length * kv_heads * head_dim + 8.0 * rows * heads * head_dim;
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const uint32_t pages = (length + page - 1) / page, width = heads * head_dim;
    std::vector<int32_t> table(pages);
    for (uint32_t i = 0; i < pages; ++i) table[i] = int32_t(pages - 1 - i);
    std::vector<kernels::PromptTile> tiles;
    for (uint32_t r = 0; r < rows; r += spec.queries)
      tiles.push_back({0, r, std::min(spec.queries, rows - r), length - rows + r});
    auto cache = [&] {
      return ptx::DevicePtr<uint8_t>{m.put(half_inputs(random, size_t(pages) * page * kv_heads * head_dim)).address};
    };
    const kernels::PromptAttention::Args args{{.out = m.poisoned<float>(size_t(rows) * width),
                                               .q = m.put(random.normals(size_t(rows) * width)),
                                               .k = cache(),
                                               .v = cache(),
                                               .table = m.put(table),
                                               .heads = heads,
                                               .kv_heads = kv_heads,
                                               .q_stride = width,
                                               .out_stride = width,
                                               .page_size = page,
                                               .table_stride = pages,
                                               .scale = 1 / std::sqrt(float(head_dim))},
                                              m.put(tiles),
                                              uint32_t(tiles.size())};
    return [=](Machine& now, uint32_t) { now.launch(spec, args); };
  };
  return {"prompt_attention",
          fmt::format("{} of {} tokens, 32 heads of {}{}", rows, length, head_dim, exact_q ? ", exact q" : ""),
          "sm_90",
          bytes,
          4.0 * seen * heads * head_dim,
          prepare};
}

}  // namespace

void add_prompt_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const PromptAttention& spec, const PromptShape& shape) { cases.push_back(prompt(spec, shape)); };
  const PromptAttention small{.head_dim = 64, .queries = 32, .positions = 32};
  add(small, {.pieces = {{5, 40}, {0, 3}}, .whole = true});
  if (sweep == Sweep::quick) return;

  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u})
    for (uint32_t exact : {0u, 1u}) {
      add({.head_dim = dim, .queries = 32, .positions = 32, .exact_q = exact}, {.heads = 3, .pieces = {{9, 50}}});
      add({.head_dim = dim, .queries = 16, .positions = 16, .stages = 3, .exact_q = exact, .chained = exact},
          {.heads = 2, .kv_heads = 2, .pieces = {{20, 19}}, .whole = true});
    }
  // every place where tiles, steps, warps and pages may end
  for (uint32_t before : {0u, 1u, 15u, 16u, 17u, 31u, 64u, 100u})
    for (uint32_t rows : {1u, 15u, 16u, 17u, 33u, 64u}) {
      PromptAttention spec = small;
      spec.stages = 2 + (before + rows) % 3;
      spec.chained = rows % 2;
      add(spec, {.heads = 1 + rows % 2, .pieces = {{before, rows}}, .whole = true});
    }
  for (uint32_t window : {1u, 2u, 16u, 17u, 40u, 1000u, 0xffffffffu}) {
    add(small, {.heads = 1, .pieces = {{70, 45}, {0, 20}, {33, 1}}, .window = window, .whole = true});
    add({.head_dim = 80, .queries = 64, .positions = 64, .chained = 1},
        {.pieces = {{200, 100}}, .page_size = 48, .window = window, .whole = window % 2 == 0});
  }
  // the first position of a step is before the window of a warp's last row only
  add({.head_dim = 64, .queries = 16, .positions = 16},
      {.heads = 1, .pieces = {{70, 16}}, .window = 37, .whole = true});
  for (float cap : {1.0f, 20.0f, 50.0f})
    add({.head_dim = 128, .queries = 16, .positions = 32}, {.pieces = {{20, 30}}, .softcap = cap, .size = 5});
  add(small, {.pieces = {{60, 40}}, .window = 30, .softcap = 30, .size = 5});
  for (uint32_t group : {1u, 2u, 3u, 5u, 8u, 12u})
    add(small, {.heads = 2 * group, .kv_heads = 2, .pieces = {{3, 20}}, .page_size = 32, .whole = true});
  for (uint32_t page : {16u, 32u, 48u, 256u})
    add(small, {.pieces = {{100, 70}, {0, 1}, {7, 0}, {300, 5}}, .page_size = page, .whole = true});
  for (uint32_t queries : {16u, 32u, 64u, 128u})
    for (uint32_t positions : {16u, 32u, 64u, 128u})
      if (positions >= queries / 4)
        add({.head_dim = 64, .queries = queries, .positions = positions},
            {.heads = 1, .pieces = {{150, 140}}, .whole = queries != positions});
  for (uint32_t dim : {64u, 96u, 128u, 160u, 192u, 256u})
    for (uint32_t exact : {0u, 1u})
      add({.head_dim = dim, .queries = 32, .positions = 32, .exact_q = exact, .kv = kernels::kv_q8, .chained = exact},
          {.heads = 3, .pieces = {{9, 50}, {0, 1}}, .page_size = 16 + dim / 64 * 16});
  PromptAttention q8 = small;
  q8.kv = kernels::kv_q8;
  for (uint32_t before : {0u, 1u, 15u, 17u, 64u})
    for (uint32_t rows : {1u, 15u, 17u, 64u}) {
      q8.stages = 2 + (before + rows) % 3;
      add(q8, {.heads = 1 + rows % 2, .pieces = {{before, rows}}});
    }
  for (uint32_t window : {1u, 16u, 17u, 40u, 0xffffffffu})
    add(q8, {.heads = 1, .pieces = {{70, 45}, {0, 20}, {33, 1}}, .window = window});
  add({.head_dim = 64, .queries = 128, .positions = 128, .kv = kernels::kv_q8}, {.heads = 1, .pieces = {{150, 140}}});
  // clusters, with blocks that have nothing to do among them
  for (uint32_t splits : {2u, 4u, 8u})
    for (uint32_t before : {0u, 40u, 200u})
      for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
        PromptAttention spec = small;
        spec.splits = splits;
        spec.kv = kv;
        spec.chained = splits > 2;
        add(spec, {.heads = 2, .pieces = {{before, 17}, {3, 40}, {9, 0}}, .window = before == 40 ? 50u : 0u});
      }
  for (uint32_t dim : {64u, 128u, 256u}) {
    PromptAttention spec = kernels::prompt_choice(dim, 64, 0);
    spec.splits = 4;
    spec.kv = dim == 256 ? kernels::kv_q8 : kernels::kv_f16;
    add(spec, {.heads = 1, .pieces = {{500, 64}}, .page_size = 32});
  }
  PromptAttention empty = small;
  empty.splits = 2;
  add(empty, {.pieces = {}});
  add(small, {.pieces = {}});
  add(small, {.pieces = {{4, 0}}});
  for (uint32_t dim : {64u, 128u, 256u})
    for (uint32_t rows : {1u, 20u, 100u})
      add(kernels::prompt_choice(dim, rows, 0), {.heads = 1, .pieces = {{77, rows}}, .page_size = 64, .whole = true});
  if (sweep == Sweep::normal) return;

  for (uint32_t dim : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u}) {
    add(kernels::prompt_choice(dim, 700, 0),
        {.heads = 8, .kv_heads = 2, .pieces = {{300, 700}, {0, 129}}, .page_size = 64});
    add(kernels::prompt_choice(dim, 700, 0),
        {.heads = 3, .pieces = {{3000, 300}, {0, 512}}, .page_size = 64, .whole = true});
  }
  for (uint32_t kv : {kernels::kv_f16, kernels::kv_q8}) {
    PromptAttention spec = kernels::prompt_choice(128, 2048, 0);
    spec.kv = kv;
    add(spec, {.heads = 8, .kv_heads = 2, .pieces = {{0, 2048}}, .page_size = 64});
  }
  for (uint32_t splits : {2u, 8u}) {
    PromptAttention spec = kernels::prompt_choice(128, 64, 0);
    spec.splits = splits;
    spec.chained = 1;
    add(spec, {.heads = 8, .kv_heads = 2, .pieces = {{12'000, 90}, {30, 5}}, .page_size = 32});
  }
  add(kernels::prompt_choice(128, 2048, 0),
      {.heads = 4, .pieces = {{6000, 2048}}, .page_size = 64, .window = 1024, .whole = true});
  add(kernels::prompt_choice(256, 1000, 1),
      {.heads = 4, .pieces = {{1000, 1000}}, .window = 600, .softcap = 50, .size = 5});
}

void add_prompt_attention_benches(std::vector<Bench>& all) {
  for (uint32_t exact_q : {0u, 1u}) {
    for (uint32_t length : {512u, 2048u, 8192u}) all.push_back(prompt_attention(128, length, length, exact_q));
    all.push_back(prompt_attention(128, 8192, 512, exact_q));
  }
  for (uint32_t dim : {64u, 80u, 256u}) all.push_back(prompt_attention(dim, 4096, 4096, 0));
}

}  // namespace heddle::proof

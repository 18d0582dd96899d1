// Cases of any_attention. What it must not read (positions behind a row's own or before its window, pages of no
// sequence) is NaN, so that reading it shows.
#include <algorithm>

#include "kernels/attention/any_attention.h"
#include "proof/attention/attention_problem.h"
#include "proof/case.h"

namespace heddle::proof {

namespace {

using kernels::AnyAttention;

struct Shape {
  uint32_t heads = 2, kv_heads = 1, head = 64, value_head = 64;
  // (sequence, position) of each row; a position of ~0 is a row that is not in use
  std::vector<std::pair<uint32_t, uint32_t>> rows;
  uint32_t page_size = 16;
  Sight sight = {};
  float softcap = 0;
  float q_size = 2;  // spreads the scores

  uint32_t sequences() const {
    uint32_t n = 1;
    for (auto [sequence, position] : rows) n = std::max(n, sequence + 1);
    return n;
  }
  std::string text() const {
    std::string t =
        fmt::format("heads={}/{} of {}/{} page_size={} rows=", heads, kv_heads, head, value_head, page_size);
    for (size_t i = 0; i < std::min<size_t>(rows.size(), 8); ++i)
      t += fmt::format("{}@{} ", int32_t(rows[i].second), rows[i].first);
    if (rows.size() > 8) t += fmt::format("... {} ", rows.size());
    if (softcap > 0) t += fmt::format("softcap={} q={}", softcap, q_size);
    return t + sight.text();
  }
  // The positions of a sequence: those of its last row and before it.
  uint32_t length(uint32_t sequence) const {
    uint32_t n = 0;
    for (auto [of, position] : rows)
      if (of == sequence && position != ~0u) n = std::max(n, position + 1);
    return n;
  }
};

class Problem {
 public:
  Problem(Machine& m, Random& random, const Shape& shape, uint32_t kv)
      : s_(shape), heads_(random, shape.sight, shape.heads) {
    uint32_t last = 0;
    for (auto [sequence, position] : s_.rows)
      if (position != ~0u) last = std::max(last, position);
    PageTable pages(s_.sequences(), last, s_.page_size);
    std::vector<std::vector<bool>> seen(s_.sequences(), std::vector<bool>(last + 1));
    for (auto [sequence, position] : s_.rows)
      for (uint32_t p = first(position); p < end(sequence, position); ++p) {
        seen[sequence][p] = true;
        pages.need(sequence, p);
      }
    pages.place(random);

    // q8: scales of positions that no row sees are NaN
    auto fill = [&](std::vector<std::vector<float>>& x, uint32_t size, ptx::DevicePtr<f16>& scales) {
      KvRows cache(pages.rows(s_.kv_heads), size, kv);
      for (uint32_t s = 0; s < s_.sequences(); ++s) {
        x.push_back(random.normals(size_t(last + 1) * s_.kv_heads * size));
        for (uint32_t p = 0; p <= last; ++p)
          for (uint32_t h = 0; h < s_.kv_heads && seen[s][p]; ++h)
            cache.put(pages.row(s, p, s_.kv_heads, h), &x[s][(size_t(p) * s_.kv_heads + h) * size]);
      }
      if (kv == kernels::kv_q8) scales = m.put(cache.scales);
      return m.put(cache.bytes);
    };
    ptx::DevicePtr<f16> k_scale{}, v_scale{};
    const uint32_t q_stride = s_.heads * s_.head + 3, out_stride = s_.heads * s_.value_head + 5;
    q_ = random.normals(s_.rows.size() * q_stride, s_.q_size);
    std::vector<uint32_t> positions, sequences, lengths;
    for (auto [sequence, position] : s_.rows) {
      sequences.push_back(sequence);
      positions.push_back(position);
      lengths.push_back(s_.length(sequence));
    }
    before_ = random.normals(s_.rows.size() * out_stride);
    args = {{.out = m.put(before_),
             .q = m.put(q_),
             .k = fill(k_, s_.head, k_scale),
             .v = fill(v_, s_.value_head, v_scale),
             .table = m.put(pages.table()),
             .heads = s_.heads,
             .kv_heads = s_.kv_heads,
             .q_stride = q_stride,
             .out_stride = out_stride,
             .page_size = s_.page_size,
             .table_stride = pages.stride(),
             .window = s_.sight.window,
             .scale = 1 / std::sqrt(float(s_.head)),
             .softcap = s_.softcap,
             .chunk = s_.sight.chunk},
            m.put(positions),
            m.put(sequences),
            uint32_t(s_.rows.size()),
            s_.head,
            s_.value_head,
            m.put(lengths)};
    heads_.put(m, args);
    args.k_scale = k_scale;
    args.v_scale = v_scale;
    solve();
  }
  void check(Machine& m, Check& check) const {
    // Scores are sums of about 100 products around 1, rounded each, in units of 2^-24: 3e-6 at most for these inputs,
    // more where a head is long. What the soft-cap adds is 5e-7 of the cap (see tanh in functions.h), for a position
    // and for the sum over all. A slope times a distance that still has weight (below 20) rounds to 2e-6.
    const double bound = 5e-6 + 1e-6 * s_.softcap + (s_.head > 256 ? 5e-6 : 0) + (s_.sight.slopes ? 4e-6 : 0);
    check.near("out", m.get(args.out, before_.size()), want_, size_, bound);
  }

  AnyAttention::Args args{};

 private:
  uint32_t end(uint32_t sequence, uint32_t position) const {
    return position == ~0u ? 0 : s_.sight.end(position, s_.length(sequence));
  }
  uint32_t first(uint32_t position) const { return position == ~0u ? 0 : s_.sight.first(position); }
  void solve() {
    want_.assign(before_.begin(), before_.end());  // gaps stay
    size_.assign(before_.size(), 0);
    for (size_t r = 0; r < s_.rows.size(); ++r)
      for (uint32_t h = 0; h < s_.heads; ++h) {
        const auto [sequence, position] = s_.rows[r];
        const uint32_t kv_head = h / (s_.heads / s_.kv_heads), from = first(position), to = end(sequence, position);
        const float* q = q_.data() + r * args.q_stride + size_t(h) * s_.head;
        std::vector<double> scores;
        for (uint32_t p = from; p < to; ++p) {
          const float* k = k_[sequence].data() + (size_t(p) * s_.kv_heads + kv_head) * s_.head;
          double score = 0;
          for (uint32_t i = 0; i < s_.head; ++i) score += double(q[i]) * k[i];
          score *= args.scale;
          if (s_.softcap > 0) score = s_.softcap * std::tanh(score / s_.softcap);
          scores.push_back(heads_.score(score, h, position, p));
        }
        heads_.weigh(scores, h);
        for (uint32_t i = 0; i < s_.value_head; ++i) {
          double want = 0, size = 0;
          for (uint32_t p = from; p < to; ++p) {
            const double part =
                scores[p - from] * v_[sequence][(size_t(p) * s_.kv_heads + kv_head) * s_.value_head + i];
            want += part;
            size += std::abs(part);
          }
          const size_t at = r * args.out_stride + size_t(h) * s_.value_head + i;
          want_[at] = want;
          size_[at] = size;
        }
      }
  }

  Shape s_;
  HeadScores heads_;
  std::vector<float> q_, before_;
  std::vector<std::vector<float>> k_, v_;  // per sequence (positions, kv_heads, size)
  std::vector<double> want_, size_;
};

Case attention(AnyAttention spec, const Shape& shape) {
  spec.softcap = shape.softcap > 0;
  shape.sight.set(spec);
  auto run = [=](Machine& m, Random& random, Check& check) {
    const Problem problem(m, random, shape, spec.kv);
    m.launch(spec, problem.args);
    problem.check(m, check);
  };
  return {"any_attention", fmt::format("{} {}", field_text(spec), shape.text()), target_of(spec), run};
}

}  // namespace

void add_any_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  auto add = [&](const AnyAttention& spec, const Shape& shape) { cases.push_back(attention(spec, shape)); };
  add({.warps = 4, .largest = 128}, {.rows = {{0, 40}, {1, 3}}});
  add({.warps = 2, .largest = 128, .vec = 4, .chained = 1}, {.rows = {{0, 40}, {1, 0}}});
  if (sweep == Sweep::quick) return;

  const decltype(Shape::rows) mixed{{1, 20}, {0, 0}, {1, 21}, {0, ~0u}, {2, 35}};
  for (uint32_t head : {1u, 7u, 33u, 100u, 127u})
    add({.warps = 3, .largest = 128}, {.head = head, .value_head = 128 - head, .rows = mixed, .page_size = 7});
  for (uint32_t largest : {128u, 256u, 512u})
    for (uint32_t vec : {1u, 2u, 4u})
      for (uint32_t head : {largest, largest - 4 * vec})
        add({.warps = 2, .largest = largest, .vec = vec, .chained = vec / 2 % 2},
            {.head = head, .value_head = 36, .rows = {{0, 12}, {0, 13}}});
  add({}, {.head = 512, .value_head = 512, .rows = {{0, 70}}});
  add({.vec = 4}, {.head = 192, .value_head = 128, .rows = {{0, 70}, {0, 1}}});  // keys longer than values
  add({}, {.head = 1, .value_head = 1, .rows = {{0, 200}}});
  for (uint32_t group : {1u, 3u, 7u})
    add({.warps = 2, .largest = 128, .vec = 2},
        {.heads = 2 * group, .kv_heads = 2, .head = 20, .value_head = 30, .rows = mixed});
  // every place where the warps' turns may end
  for (uint32_t position : {0u, 1u, 2u, 3u, 4u, 7u, 8u, 15u, 16u, 17u, 63u, 64u})
    add({.warps = 4, .largest = 128, .vec = 4}, {.heads = 1, .rows = {{0, position}}});
  for (uint32_t warps : {1u, 5u, 16u}) add({.warps = warps, .largest = 128}, {.heads = 1, .rows = {{0, 90}, {0, 2}}});
  for (uint32_t window : {1u, 2u, 17u, 36u, 37u, 1000u})
    add({.warps = 2, .largest = 128, .vec = 2}, {.rows = mixed, .sight = {.window = window}});
  for (float cap : {1.0f, 20.0f, 50.0f})
    add({.warps = 2, .largest = 128}, {.rows = mixed, .sight = {.window = 30}, .softcap = cap, .q_size = 8});
  for (uint32_t head : {32u, 96u, 128u, 256u, 512u})
    add({.warps = 3, .largest = std::max(head, 128u), .vec = 4, .kv = kernels::kv_q8, .chained = head / 32 % 2},
        {.heads = 4,
         .kv_heads = 2,
         .head = head,
         .value_head = head == 256 ? 32u : head,
         .rows = mixed,
         .page_size = 7});
  add({.warps = 2, .largest = 128, .vec = 4, .kv = kernels::kv_q8},
      {.rows = mixed, .sight = {.window = 17}, .softcap = 20, .q_size = 8});
  // the last group of a q8 head may be shorter, and a head shorter than a group
  for (uint32_t head : {4u, 20u, 36u, 80u, 112u, 476u})
    add({.warps = 3, .largest = head > 128 ? 512u : 128u, .vec = 4, .kv = kernels::kv_q8, .chained = head / 4 % 2},
        {.heads = 4, .kv_heads = 2, .head = head, .value_head = 124 - head % 120, .rows = mixed, .page_size = 7});
  for (uint32_t head : {1u, 7u, 31u, 33u, 65u, 127u, 509u})
    add({.warps = 2, .largest = head > 128 ? 512u : 128u, .vec = 1, .kv = kernels::kv_q8, .chained = head % 4 / 3},
        {.heads = 4,
         .kv_heads = 2,
         .head = head,
         .value_head = 128 - head % 128,
         .rows = mixed,
         .page_size = 7,
         .sight = {.window = head == 65 ? 17u : 0u, .sinks = head == 33}});
  for (uint32_t chunk : {1u, 16u, 21u, 36u, 1000u})
    add({.warps = 2, .largest = 128, .vec = 2}, {.rows = mixed, .sight = {.chunk = chunk}});
  for (uint32_t window : {0u, 1u, 2u, 17u, 71u, 1000u, 0xffffffffu})
    add({.warps = 2, .largest = 128, .vec = 4},
        {.rows = mixed, .page_size = 7, .sight = {.window = window, .bidirectional = true}});
  for (bool both : {false, true})
    for (bool slopes : {false, true}) {
      const Sight sight{.window = 25, .chunk = 20, .bidirectional = both, .sinks = true, .slopes = slopes};
      add({.warps = 3, .largest = 128, .chained = slopes},
          {.heads = 6, .kv_heads = 2, .rows = mixed, .sight = sight, .softcap = 20, .q_size = 8});
      add({.warps = 2, .largest = 128, .vec = 4, .kv = kernels::kv_q8},
          {.heads = 4, .rows = mixed, .sight = {.bidirectional = both, .sinks = !slopes, .slopes = slopes}});
    }
  add({}, {.rows = {}});
  add({.warps = 16, .largest = 128, .vec = 4}, {.heads = 1, .rows = {{0, 1500}}, .page_size = 32});
  if (sweep == Sweep::normal) return;

  Shape prompt{.heads = 8, .kv_heads = 2, .head = 80, .value_head = 96, .rows = {}, .page_size = 32};
  for (uint32_t p = 0; p < 600; ++p) prompt.rows.emplace_back(p % 3, p);
  add({.largest = 128, .vec = 4, .chained = 1}, prompt);
  prompt.head = 64;
  add({.largest = 128, .vec = 4, .kv = kernels::kv_q8, .chained = 1}, prompt);
  prompt.head = 80;
  prompt.value_head = 80;
  add({.largest = 128, .vec = 4, .kv = kernels::kv_q8, .chained = 1}, prompt);
  prompt.value_head = 77;
  add({.largest = 128, .vec = 1, .kv = kernels::kv_q8, .chained = 1}, prompt);
  prompt.head = 64;
  prompt.value_head = 96;
  prompt.sight = {.window = 200, .bidirectional = true, .sinks = true, .slopes = true};
  add({.largest = 128, .vec = 4, .chained = 1}, prompt);
  add({.vec = 1}, {.heads = 4,
                   .kv_heads = 1,
                   .head = 511,
                   .value_head = 509,
                   .rows = {{0, 5000}, {1, 9}, {0, 4999}},
                   .page_size = 64});
}

}  // namespace heddle::proof

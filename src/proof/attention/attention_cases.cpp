// Cases of the attention kernels. What a kernel must not read (positions behind the end or before the window, pages of
// nobody) is NaN, so that reading it shows.
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/attention/cluster_attention.h"
#include "proof/attention/kv_rows.h"
#include "proof/attention/prompt_attention_cases.h"

namespace heddle::proof {
namespace {

using kernels::Attention;
using kernels::ClusterAttention;
using kernels::FlashDecodingReduce;

struct AttentionShape {
  uint32_t head_dim = 128, heads = 2, kv_heads = 1;
  std::vector<uint32_t> lengths;  // per sequence
  uint32_t page_size = 16;
  uint32_t window = 0;  // 0: none
  float softcap = 0;    // 0: none
  float q_size = 2;     // spreads the scores
  // of rows: whose token each is, with the positions up to `lengths`; empty: every row has a sequence of its own
  std::vector<uint32_t> sequence_of{};

  std::string text() const {
    std::string t = fmt::format("heads={}/{} lengths={}", heads, kv_heads, fmt::join(lengths, ","));
    if (page_size != 16) t += fmt::format(" page_size={}", page_size);
    if (window) t += fmt::format(" window={}", window);
    if (softcap > 0) t += fmt::format(" softcap={}", softcap);
    if (!sequence_of.empty()) t += fmt::format(" of={}", fmt::join(sequence_of, ","));
    return t;
  }
};

// Inputs in device memory, in any layout, and the reference.
class AttentionProblem {
 public:
  AttentionProblem(Machine& m, Random& random, const AttentionShape& shape, uint32_t kv, uint32_t layout)
      : shape_(shape), kv_(kv), layout_(layout) {
    q_ = random.normals(shape.lengths.size() * shape.heads * shape.head_dim, shape.q_size);
    const size_t row = size_t(shape.kv_heads) * shape.head_dim;  // of a position
    for (uint32_t length : by_sequence()) {
      max_len_ = std::max(max_len_, length + 3);
      for (auto* all : {&k_, &v_}) all->push_back(random.normals(length * row));
    }
    auto each_head = [&](auto&& f) {
      for (auto* all : {&k_, &v_})
        for (auto& values : *all)
          for (size_t i = 0; i < values.size(); i += shape.head_dim) f(&values[i]);
    };
    if (kv != kernels::kv_f32) each_head([&](float* x) { KvRows(1, shape.head_dim, kv).put(0, x); });
    place(m, random);
    // what the matrix units are given; placed again it would be quantised again
    if (kv == kernels::kv_q8) each_head([&](float* x) { KvRows(1, shape.head_dim, kernels::kv_f16).put(0, x); });
    solve();
  }

  // The arguments that every attention kernel has.
  template <class Args>
  Args args() const {
    Args a{};
    a.q = q_at_, a.k = k_at_, a.v = v_at_, a.k_base = k_base_, a.v_base = v_base_, a.table = table_;
    a.lengths = lengths_;
    a.sequences = uint32_t(shape_.lengths.size()), a.heads = shape_.heads, a.kv_heads = shape_.kv_heads;
    a.length = shape_.lengths.empty() ? 0 : shape_.lengths[0];
    a.max_len = max_len_, a.page_size = shape_.page_size, a.table_stride = table_stride_, a.window = shape_.window;
    a.scale = scale_, a.softcap = shape_.softcap;
    return a;
  }
  void check(Check& check, std::span<const float> out, double bound) const {
    check.near("out", out, want_, size_, bound);
  }
  size_t outputs() const { return q_.size(); }
  // q with gaps between its rows.
  ptx::DevicePtr<float> spread_q(Machine& m, uint32_t stride) const {
    const size_t row = size_t(shape_.heads) * shape_.head_dim, rows = shape_.lengths.size();
    std::vector<float> q(rows * stride, std::numeric_limits<float>::quiet_NaN());
    for (size_t r = 0; r < rows; ++r)
      std::copy_n(q_.begin() + ptrdiff_t(r * row), row, q.begin() + ptrdiff_t(r * stride));
    return m.put(q);
  }
  ptx::DevicePtr<f16> k_scale, v_scale;  // q8

 private:
  uint32_t sequence(size_t row) const { return shape_.sequence_of.empty() ? uint32_t(row) : shape_.sequence_of[row]; }
  // The longest length of each.
  std::vector<uint32_t> by_sequence() const {
    std::vector<uint32_t> lengths;
    for (size_t r = 0; r < shape_.lengths.size(); ++r) {
      if (sequence(r) >= lengths.size()) lengths.resize(sequence(r) + 1);
      lengths[sequence(r)] = std::max(lengths[sequence(r)], shape_.lengths[r]);
    }
    return lengths;
  }

  // The cache as `rows` rows of head_dim, NaN but for what put() writes.
  struct Rows {
    std::vector<float> x;
    uint32_t head_dim;
    Rows(size_t rows, uint32_t dim) : x(rows * dim, std::numeric_limits<float>::quiet_NaN()), head_dim(dim) {}
    void put(size_t row, const float* from) { std::copy(from, from + head_dim, x.begin() + ptrdiff_t(row * head_dim)); }
  };
  ptx::DevicePtr<uint8_t> upload(Machine& m, Rows& rows, ptx::DevicePtr<f16>& scales) const {
    if (kv_ == kernels::kv_q8) {
      KvRows q8(rows.x.size() / rows.head_dim, rows.head_dim, kv_);
      for (size_t i = 0; i < rows.x.size(); i += rows.head_dim)
        if (!std::isnan(rows.x[i])) q8.put(i / rows.head_dim, &rows.x[i]);
      scales = m.put(q8.scales);
      return m.put(q8.bytes);
    }
    std::vector<uint8_t> bytes(rows.x.size() * kernels::kv_bytes(kv_));
    for (size_t i = 0; i < rows.x.size(); ++i) {
      const f16 half = to_f16(rows.x[i]);
      if (kv_ == kernels::kv_f16) std::memcpy(&bytes[i * 2], &half, 2);
      if (kv_ == kernels::kv_f32) std::memcpy(&bytes[i * 4], &rows.x[i], 4);
    }
    return m.put(bytes);
  }
  uint32_t first(uint32_t length) const { return shape_.window && length > shape_.window ? length - shape_.window : 0; }

  void place(Machine& m, Random& random) {
    const uint32_t head_dim = shape_.head_dim, kv_heads = shape_.kv_heads, page_size = shape_.page_size;
    const std::vector<uint32_t>& lengths = shape_.lengths;
    const size_t sequences = by_sequence().size();
    q_at_ = m.put(q_);
    lengths_ = m.put(std::vector<int32_t>(lengths.begin(), lengths.end()));
    auto fill = [&](Rows& rows, const std::vector<float>& from, uint32_t length, auto&& row_of) {
      for (uint32_t p = first(length); p < length; ++p)
        for (uint32_t h = 0; h < kv_heads; ++h)
          rows.put(row_of(h, p), from.data() + (size_t(p) * kv_heads + h) * head_dim);
    };
    if (layout_ != kernels::kv_paged) {
      std::vector<uint64_t> k_base, v_base;
      for (size_t s = 0; s < sequences; ++s) {
        Rows k(size_t(kv_heads) * max_len_, head_dim), v = k;
        auto row_of = [&](uint32_t h, uint32_t p) { return size_t(h) * max_len_ + p; };
        fill(k, k_[s], lengths[s], row_of), fill(v, v_[s], lengths[s], row_of);
        k_at_ = upload(m, k, k_scale), v_at_ = upload(m, v, v_scale);
        k_base.push_back(k_at_.address), v_base.push_back(v_at_.address);
      }
      k_base_ = m.put(k_base), v_base_ = m.put(v_base);
      if (layout_ == kernels::kv_batched) k_at_ = v_at_ = {};
      return;
    }
    // pages in random order, with some that belong to nobody; table entries of pages that do not exist are wild
    table_stride_ = (max_len_ + page_size - 1) / page_size + 1;
    std::vector<int32_t> order(sequences * table_stride_), table(order.size(), 0x7fffffff);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(uint32_t(i))]);
    Rows k(order.size() * kv_heads * page_size, head_dim), v = k;
    for (size_t r = 0; r < lengths.size(); ++r) {
      const size_t s = sequence(r);
      auto page = [&](uint32_t p) { return order[s * table_stride_ + p / page_size]; };
      auto row_of = [&](uint32_t h, uint32_t p) {
        return (size_t(page(p)) * kv_heads + h) * page_size + p % page_size;
      };
      for (uint32_t p = first(lengths[r]); p < lengths[r]; ++p) table[s * table_stride_ + p / page_size] = page(p);
      fill(k, k_[s], lengths[r], row_of), fill(v, v_[s], lengths[r], row_of);
    }
    k_at_ = upload(m, k, k_scale), v_at_ = upload(m, v, v_scale), table_ = m.put(table);
  }

  void solve() {
    const uint32_t dim = shape_.head_dim, kv_heads = shape_.kv_heads;
    scale_ = 1 / std::sqrt(float(dim));
    for (size_t r = 0; r < shape_.lengths.size(); ++r)
      for (uint32_t h = 0; h < shape_.heads; ++h) {
        const uint32_t kv_head = h * kv_heads / shape_.heads, end = shape_.lengths[r], begin = first(end);
        const uint32_t s = sequence(r);
        const float* q = q_.data() + (r * shape_.heads + h) * dim;
        auto row = [&](const std::vector<float>& x, uint32_t p) {
          return x.data() + (size_t(p) * kv_heads + kv_head) * dim;
        };
        std::vector<double> scores;
        for (uint32_t p = begin; p < end; ++p) {
          double score = 0;
          for (uint32_t i = 0; i < dim; ++i) score += double(q[i]) * row(k_[s], p)[i];
          score *= scale_;
          if (shape_.softcap > 0) score = shape_.softcap * std::tanh(score / shape_.softcap);
          scores.push_back(score);
        }
        const double top = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& x : scores) sum += x = std::exp(x - top);
        for (uint32_t i = 0; i < dim; ++i) {
          double want = 0, size = 0;
          for (uint32_t p = begin; p < end; ++p) {
            const double part = scores[p - begin] / sum * row(v_[s], p)[i];
            want += part, size += std::abs(part);
          }
          want_.push_back(want), size_.push_back(size);
        }
      }
  }

  AttentionShape shape_;
  uint32_t kv_, layout_;
  uint32_t max_len_ = 0, table_stride_ = 0;
  float scale_ = 0;
  std::vector<float> q_;
  std::vector<std::vector<float>> k_, v_;  // per sequence (length, kv_heads, head_dim)
  std::vector<double> want_, size_;        // size: of the terms that `want` is the sum of
  ptx::DevicePtr<float> q_at_;
  ptx::DevicePtr<uint8_t> k_at_, v_at_;
  ptx::DevicePtr<uint64_t> k_base_, v_base_;
  ptx::DevicePtr<int32_t> table_, lengths_;
};

// Scores are sums of about 100 products around 1, rounded each, in units of 2^-24: 3e-6 at most for these inputs. What
// the soft-cap adds is 5e-7 of the cap (see tanh in functions.h), for a position and for the sum over all.
double simt_bound(const AttentionShape& shape) { return 5e-6 + 1e-6 * shape.softcap; }

// `chunks`: 0 for one pass, else split over so many blocks and reduced.
Case attention(std::string kernel, Attention spec, const AttentionShape& shape, uint32_t chunks = 0,
               uint32_t chunk = 128) {
  spec.head_dim = shape.head_dim, spec.window = shape.window > 0, spec.softcap = shape.softcap > 0;
  spec.split = chunks > 0;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const AttentionProblem problem(m, random, shape, spec.kv, spec.layout);
    auto args = problem.args<Attention::Args>();
    auto out = m.poisoned<float>(problem.outputs());
    args.out = out;
    if (chunks) {
      args.out = {}, args.chunk = chunk, args.chunks = chunks;
      args.partial =
          m.poisoned<float>(size_t(args.sequences) * args.heads * chunks * Attention::partial_row(shape.head_dim));
    }
    m.launch(spec, args);
    if (chunks)
      m.launch(
          FlashDecodingReduce{.head_dim = shape.head_dim},
          {.out = out, .partial = args.partial, .sequences = args.sequences, .heads = args.heads, .chunks = chunks});
    problem.check(check, m.get(out, problem.outputs()), simt_bound(shape));
  };
  std::string text = field_text(spec) + " " + shape.text();
  if (chunks) text += fmt::format(" chunks={}x{}", chunks, chunk);
  return {std::move(kernel), text, "sm_75", run};
}

// A product of 16 rounds to 17 * 2^-23 of the sum of magnitudes, which is 0.64 * q_size * sqrt(head_dim) for a score of
// these inputs; a weight and the sum of weights have that error each. The second product adds 17 * 2^-23.
double cluster_bound(const AttentionShape& shape) {
  return 17 * 0x1p-23 * (1 + 2 * 0.64 * shape.q_size * std::sqrt(shape.head_dim)) + 1e-6 * shape.softcap;
}

// `clusters`: 0 for one without merging. With it everything runs twice on the same scratch memory.
Case cluster(ClusterAttention spec, const AttentionShape& shape, uint32_t clusters = 0) {
  spec.head_dim = shape.head_dim, spec.window = shape.window > 0, spec.softcap = shape.softcap > 0;
  spec.merge = clusters > 0, spec.mapped = !shape.sequence_of.empty();
  auto run = [=](Machine& m, Random& random, Check& check) {
    const AttentionProblem problem(m, random, shape, spec.kv, spec.layout);
    auto args = problem.args<ClusterAttention::Args>();
    args.clusters = clusters;
    args.k_scale = problem.k_scale, args.v_scale = problem.v_scale;
    if (spec.mapped) {
      args.sequence_of = m.put(shape.sequence_of);
      args.q_stride = shape.heads * shape.head_dim + 6, args.q = problem.spread_q(m, args.q_stride);
    }
    const size_t counters = clusters ? spec.arrived_count(args.sequences, args.kv_heads) : 0;
    if (clusters) {
      args.partial = m.poisoned<float>(spec.partial_count(args.sequences, args.kv_heads, clusters));
      args.arrived = m.put(std::vector<uint32_t>(counters, 0));
    }
    for (uint32_t times = clusters ? 2 : 1; times; --times) {
      args.out = m.poisoned<float>(problem.outputs());
      m.launch(spec, args);
      problem.check(check, m.get(args.out, problem.outputs()), cluster_bound(shape));
    }
    if (clusters) check.equal("arrived", m.get(args.arrived, counters), std::vector<uint32_t>(counters, 0));
  };
  std::string text = field_text(spec) + " " + shape.text();
  if (clusters) text += fmt::format(" clusters={}", clusters);
  return {"cluster_attention", text, "sm_90", run};
}

// Every row alone gives the bits that it has among others.
Case steady(uint32_t kv, const AttentionShape& shape) {
  ClusterAttention spec = kernels::steady_cluster_choice(shape.head_dim).spec;
  if (kv == kernels::kv_q8) spec = kernels::as_q8(spec);
  spec.layout = kernels::kv_paged, spec.mapped = 1, spec.chained = 1;
  auto run = [=](Machine& m, Random& random, Check& check) {
    const AttentionProblem problem(m, random, shape, kv, spec.layout);
    auto args = problem.args<ClusterAttention::Args>();
    args.k_scale = problem.k_scale, args.v_scale = problem.v_scale, args.sequence_of = m.put(shape.sequence_of);
    args.out = m.poisoned<float>(problem.outputs());
    ClusterAttention fresh = spec;
    fresh.fresh = 1;
    m.launch(fresh, args);
    const std::vector<float> together = m.get(args.out, problem.outputs());
    problem.check(check, together, cluster_bound(shape));
    args.out = m.poisoned<float>(problem.outputs());
    const uint64_t row_bytes = uint64_t(shape.heads) * shape.head_dim * sizeof(float);
    for (size_t r = 0; r < shape.lengths.size(); ++r) {
      auto one = args;
      one.q.address += r * row_bytes, one.out.address += r * row_bytes;
      one.lengths.address += r * 4, one.sequence_of.address += r * 4, one.sequences = 1;
      m.launch(spec, one);
    }
    check.equal("alone", m.get(args.out, problem.outputs()), together);
  };
  return {"cluster_attention", "steady " + field_text(spec) + " " + shape.text(), "sm_90", run};
}

// Random parts, every third of them empty.
Case reduce(FlashDecodingReduce spec, uint32_t sequences, uint32_t heads, uint32_t chunks) {
  auto run = [=](Machine& m, Random& random, Check& check) {
    const uint32_t dim = spec.head_dim, row = Attention::partial_row(dim);
    std::vector<float> partial = random.normals(size_t(sequences) * heads * chunks * row);
    std::vector<double> want, size;
    for (size_t r = 0; r < size_t(sequences) * heads; ++r) {
      std::vector<double> values(dim), sizes(dim);
      double sum = 0;
      for (uint32_t c = 0; c < chunks; ++c) {
        float* part = &partial[(r * chunks + c) * row];
        if (c % 3 == 1 || r == 1) {
          std::fill(part, part + dim + 2, 0.0f);
          part[dim] = std::numeric_limits<float>::lowest();
          continue;
        }
        part[dim] *= 4, part[dim + 1] = 1 + std::abs(part[dim + 1]);
        sum += std::exp2(double(part[dim])) * part[dim + 1];
        for (uint32_t i = 0; i < dim; ++i) {
          values[i] += std::exp2(double(part[dim])) * part[i];
          sizes[i] += std::abs(std::exp2(double(part[dim])) * part[i]);
        }
      }
      for (uint32_t i = 0; i < dim; ++i)
        want.push_back(sum > 0 ? values[i] / sum : 0), size.push_back(sum > 0 ? sizes[i] / sum : 0);
    }
    auto out = m.poisoned<float>(want.size());
    m.launch(spec, {.out = out, .partial = m.put(partial), .sequences = sequences, .heads = heads, .chunks = chunks});
    check.near("out", m.get(out, want.size()), want, size, 5e-6);
  };
  return {"flash_decoding_reduce",
          fmt::format("{} sequences={} heads={} chunks={}", field_text(spec), sequences, heads, chunks), "sm_75", run};
}

const std::vector<uint32_t> head_dims = {32, 64, 80, 96, 112, 128, 160, 192, 256};
const std::vector<uint32_t> edge_lengths = {0, 1, 2, 15, 16, 17, 127, 128, 129};

void add_simt(Sweep sweep, std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](auto&&... args) { cases.push_back(attention(args...)); };
  const Attention batched{.layout = kv_batched, .length = length_indirect, .warps = 4};
  const Attention paged{.layout = kv_paged, .length = length_indirect, .warps = 4};

  add("incremental_attention", Attention{}, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {33}});
  add("incremental_attention_indirect", Attention{.length = length_indirect}, AttentionShape{.lengths = {18}});
  add("multi_warp_attention", Attention{.warps = 8}, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {129}});
  add("multi_warp_attention_indirect", Attention{.length = length_indirect, .warps = 8},
      AttentionShape{.lengths = {65}});
  add("batched_incremental_attention", batched, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {5, 0, 40}});
  add("paged_attention", paged, AttentionShape{.heads = 4, .kv_heads = 2, .lengths = {5, 0, 40}});
  add("flash_decoding_chunk", Attention{.length = length_indirect, .warps = 4}, AttentionShape{.lengths = {300}}, 4u);
  cases.push_back(reduce({}, 2, 3, 7));
  if (sweep == Sweep::quick) return;

  for (uint32_t dim : head_dims)
    for (uint32_t kv : {kv_f16, kv_f32}) {
      add("incremental_attention", Attention{.kv = kv}, AttentionShape{.head_dim = dim, .lengths = {45}});
      add("multi_warp_attention", Attention{.kv = kv, .warps = 3}, AttentionShape{.head_dim = dim, .lengths = {129}});
      Attention many = batched;
      many.kv = kv;
      add("batched_incremental_attention", many, AttentionShape{.head_dim = dim, .lengths = {17, 0, 1, 60}});
      many.layout = kv_paged;
      add("paged_attention", many, AttentionShape{.head_dim = dim, .lengths = {17, 0, 1, 60}});
      add("flash_decoding_chunk", Attention{.kv = kv, .length = length_indirect, .warps = 2},
          AttentionShape{.head_dim = dim, .lengths = {150}}, 3u, 64u);
    }
  for (uint32_t length : edge_lengths) {
    const AttentionShape shape{.head_dim = 64, .heads = 1, .lengths = {length}};
    add("incremental_attention", Attention{}, shape);
    add("incremental_attention_indirect", Attention{.length = length_indirect}, shape);
    add("multi_warp_attention", Attention{.warps = 4}, shape);
    add("multi_warp_attention_indirect", Attention{.length = length_indirect, .warps = 4}, shape);
    add("flash_decoding_chunk", Attention{.warps = 2}, shape, 3u, 16u);
  }
  add("incremental_attention", Attention{}, AttentionShape{.heads = 1, .lengths = {1999}});
  add("multi_warp_attention", Attention{.warps = 16}, AttentionShape{.heads = 1, .lengths = {3001}});
  add("batched_incremental_attention", batched,
      AttentionShape{.head_dim = 64, .heads = 4, .kv_heads = 2, .lengths = {1000, 3, 0, 129, 257}});
  for (uint32_t page_size : {32u, 48u, 64u, 256u})
    add("paged_attention", paged,
        AttentionShape{
            .head_dim = 64, .heads = 4, .kv_heads = 2, .lengths = {500, 3, 0, 129, 257}, .page_size = page_size});
  for (uint32_t group : {1u, 2u, 3u, 4u, 7u, 8u}) {
    const AttentionShape shape{.head_dim = 64, .heads = 2 * group, .kv_heads = 2, .lengths = {33, 20}};
    add("batched_incremental_attention", batched, shape);
    add("paged_attention", paged, shape);
  }
  for (uint32_t window : {1u, 16u, 100u, 1000u}) {
    add("multi_warp_attention", Attention{.warps = 4},
        AttentionShape{.head_dim = 64, .lengths = {150}, .window = window});
    add("paged_attention", paged, AttentionShape{.head_dim = 64, .lengths = {150, 0, 7}, .window = window});
    add("flash_decoding_chunk", Attention{.layout = kv_batched, .length = length_indirect, .warps = 2},
        AttentionShape{.head_dim = 64, .lengths = {150, 0, 7}, .window = window}, 2u, 32u);
  }
  for (float cap : {1.0f, 20.0f, 50.0f}) {
    add("multi_warp_attention", Attention{.warps = 4}, AttentionShape{.lengths = {150}, .softcap = cap, .q_size = 8});
    add("paged_attention", paged, AttentionShape{.lengths = {150, 0, 7}, .window = 50, .softcap = cap, .q_size = 8});
  }
  // fewer blocks than chunks, exactly as many, and more
  for (uint32_t chunks : {1u, 4u, 5u, 9u})
    add("flash_decoding_chunk", Attention{.layout = kv_paged, .length = length_indirect, .warps = 2},
        AttentionShape{.head_dim = 64, .heads = 4, .kv_heads = 2, .lengths = {512, 0, 385, 64, 1}}, chunks);
  for (uint32_t dim : head_dims) cases.push_back(reduce({.head_dim = dim}, 3, 2, 5));
  cases.push_back(reduce({.head_dim = 64}, 1, 2, 500));
  if (sweep == Sweep::normal) return;

  const AttentionShape large{.heads = 32, .kv_heads = 8, .lengths = {32768}};
  add("multi_warp_attention", Attention{.warps = 16}, large);
  add("flash_decoding_chunk", Attention{.length = length_indirect, .warps = 4}, large, 256u);
  const AttentionShape many{
      .heads = 32, .kv_heads = 8, .lengths = {4096, 1, 8191, 700, 0, 2048, 33, 5000}, .page_size = 64};
  add("batched_incremental_attention", batched, many);
  add("paged_attention", paged, many);
}

void add_cluster_q8(std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](ClusterAttention spec, const AttentionShape& shape, uint32_t clusters = 0) {
    spec.kv = kv_q8, spec.layout = kv_paged;
    cases.push_back(cluster(spec, shape, clusters));
  };
  for (uint32_t dim : {64u, 96u, 128u, 160u, 192u, 256u})
    for (uint32_t chained : {0u, 1u})
      add({.splits = 2, .rows = 8, .stages = 2, .warps = 2, .chained = chained},
          {.head_dim = dim, .heads = 3, .lengths = {17, 0, 1, 200}});
  // every place where shares, stages and pieces may end
  for (uint32_t length : edge_lengths)
    for (uint32_t splits : {1u, 4u})
      for (uint32_t rows : {4u, 16u})
        add({.splits = splits, .rows = rows, .stages = 3, .warps = rows / 2, .chained = splits / 4},
            {.head_dim = 64, .lengths = {length}});
  // the newest position may be the only one of its stage, of its piece, or in a stage that is not fetched early
  for (uint32_t length : {1u, 2u, 3u, 16u, 17u, 32u, 33u, 49u, 65u, 129u})
    for (uint32_t window : {0u, 1u, 20u})
      add({.splits = 2, .rows = 2, .stages = 2, .warps = 1, .chained = 1},
          {.head_dim = 128, .lengths = {length}, .window = window});
  for (uint32_t clusters : {1u, 3u})
    add({.splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = 1},
        {.heads = 8, .kv_heads = 2, .lengths = {300, 0, 60}, .page_size = 48}, clusters);
  add({.splits = 8, .rows = 8, .stages = 2, .warps = 4},
      {.head_dim = 64, .heads = 7, .lengths = {1000}, .page_size = 32});
  add({.splits = 2}, {.lengths = {150, 0, 7}, .window = 50, .softcap = 20, .q_size = 8});
}

void add_cluster(Sweep sweep, std::vector<Case>& cases) {
  using namespace kernels;
  auto add = [&](const ClusterAttention& spec, const AttentionShape& shape, uint32_t clusters = 0) {
    cases.push_back(cluster(spec, shape, clusters));
  };
  add({.layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
      {.heads = 8, .kv_heads = 2, .lengths = {100, 0}});
  add({.layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = 1},
      {.heads = 8, .kv_heads = 2, .lengths = {100, 0}}, 2);
  if (sweep == Sweep::quick) return;

  for (uint32_t dim : head_dims) {
    if (dim == 32) continue;
    for (uint32_t layout : {kv_single, kv_paged})
      add({.layout = layout, .splits = 2, .rows = 4, .stages = 2, .warps = 2},
          {.head_dim = dim, .heads = 3, .lengths = {77}});
    add({.layout = kv_batched, .splits = 4, .rows = 8, .stages = 2, .warps = 4, .chained = 1},
        {.head_dim = dim, .heads = 4, .lengths = {17, 0, 1, 260}});
  }
  // every place where shares, stages and pieces may end
  for (uint32_t length : edge_lengths) {
    add({.length = length_direct}, {.head_dim = 64, .lengths = {length}});
    for (uint32_t splits : {1u, 4u})
      for (uint32_t rows : {2u, 16u})
        add({.splits = splits, .rows = rows, .stages = 3, .warps = rows / 2, .chained = splits / 4},
            {.head_dim = 64, .lengths = {length}});
  }
  for (uint32_t splits : {1u, 2u, 4u, 8u, 16u})
    for (uint32_t warps : {1u, 2u, 4u, 8u})
      add({.layout = kv_paged, .splits = splits, .rows = 16, .stages = 2, .warps = warps, .chained = warps / 4 % 2},
          {.head_dim = 64, .heads = 4, .lengths = {1000, 300}, .page_size = 48});
  for (uint32_t stages : {1u, 2u, 5u})
    add({.splits = 1, .rows = 4, .stages = stages, .warps = 2, .chained = stages / 5},
        {.head_dim = 64, .lengths = {400}});
  for (uint32_t group : {1u, 2u, 3u, 4u, 7u, 8u})
    add({.layout = kv_paged, .splits = 2},
        {.head_dim = 64, .heads = 2 * group, .kv_heads = 2, .lengths = {130, 20}, .page_size = 32});
  for (uint32_t window : {1u, 16u, 30u, 100u, 1000u})
    for (uint32_t layout : {kv_batched, kv_paged})
      add({.layout = layout, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = layout == kv_paged},
          {.head_dim = 64, .lengths = {150, 0, 7, 161, 15}, .window = window});
  for (float cap : {1.0f, 20.0f, 50.0f})
    add({.layout = kv_paged, .splits = 2}, {.lengths = {150, 0, 7}, .window = 50, .softcap = cap, .q_size = 8});
  add({}, {.heads = 8, .kv_heads = 2, .lengths = {512}});
  add({.chained = 1}, {.heads = 4, .lengths = {2055}});
  // the newest position may be the only one of its stage, or in one that is not fetched early
  for (uint32_t length : {1u, 16u, 17u, 32u, 33u, 49u, 65u, 129u})
    for (uint32_t window : {0u, 1u, 20u})
      add({.layout = kv_paged, .splits = 2, .rows = 2, .stages = 2, .warps = 1, .chained = 1},
          {.head_dim = 64, .lengths = {length}, .window = window});
  for (uint32_t clusters : {1u, 2u, 3u, 4u}) {
    for (uint32_t splits : {1u, 2u, 4u, 8u})
      for (uint32_t length : edge_lengths)
        if (length != 2 && length != 128)
          add({.length = length_direct,
               .splits = splits,
               .rows = 4,
               .stages = 2,
               .warps = 2,
               .chained = splits / 2 % 2},
              {.head_dim = 64, .lengths = {length}}, clusters);
    add({.layout = kv_batched, .splits = 4, .chained = 1},
        {.head_dim = 64, .heads = 6, .kv_heads = 2, .lengths = {1000, 3, 0, 129, 257}}, clusters);
    add({.layout = kv_paged, .splits = 8, .rows = 4, .stages = 3, .warps = 2},
        {.heads = 4, .lengths = {1003, 0, 60}, .window = clusters * 100}, clusters);
    add({.splits = 16, .rows = 4, .warps = 2}, {.head_dim = 80, .heads = 5, .lengths = {1500}}, clusters);
  }
  for (uint32_t dim : head_dims)
    if (dim > 32) add({.splits = 4, .rows = 4, .warps = 2}, {.head_dim = dim, .heads = 3, .lengths = {200}}, 2);
  add_cluster_q8(cases);
  // prompts and single tokens in one launch, as where a result must not depend on what else runs
  for (uint32_t kv : {kv_f16, kv_q8})
    for (uint32_t fresh : {0u, 1u})
      add({.kv = kv, .layout = kv_paged, .splits = 2, .rows = 4, .stages = 2, .warps = 2, .chained = 1, .fresh = fresh},
          {.head_dim = 64,
           .heads = 4,
           .kv_heads = 2,
           .lengths = {5, 6, 7, 90, 0, 33, 34},
           .page_size = 32,
           .window = fresh * 20,
           .sequence_of = {1, 1, 1, 0, 3, 2, 2}});
  for (uint32_t kv : {kv_f16, kv_q8})
    cases.push_back(steady(kv, {.head_dim = 64,
                                .heads = 4,
                                .kv_heads = 2,
                                .lengths = {5, 6, 7, 190, 0, 33, 34},
                                .page_size = 32,
                                .sequence_of = {1, 1, 1, 0, 3, 2, 2}}));
  for (uint32_t ahead : {1u, 2u, 16u})
    add({.layout = kv_paged, .splits = 2, .rows = 2, .stages = 1, .warps = 1, .chained = 1, .ahead = ahead},
        {.head_dim = 80, .lengths = {200, 0, 17, 1}, .window = ahead == 2 ? 70u : 0});
  for (uint32_t length : {100u, 1500u}) {
    const auto [spec, clusters] = cluster_choice(128, 1, 1, length, 16);
    add(spec, {.heads = 4, .lengths = {length}}, spec.merge ? clusters : 0);
  }
  if (sweep == Sweep::normal) return;

  for (uint32_t length : {512u, 4096u, 32768u, 40000u})
    for (uint32_t sequences : {1u, 3u, 20u}) {
      if (sequences * length > 200'000) continue;  // the f64 reference would take minutes
      auto [spec, clusters] = cluster_choice(128, 8, sequences, length, 132);
      spec.layout = kv_batched, spec.chained = 1;
      add(spec, {.heads = 32, .kv_heads = 8, .lengths = std::vector(sequences, length)}, spec.merge ? clusters : 0);
    }
  // shapes that a search tries for thousands of positions
  for (uint32_t kv : {kv_f16, kv_q8})
    for (uint32_t splits : {1u, 2u, 4u, 8u})
      for (uint32_t ahead : {0u, 2u})
        add({.kv = kv,
             .layout = kv_paged,
             .splits = splits,
             .rows = 16,
             .stages = 2,
             .warps = 8,
             .chained = 1,
             .ahead = ahead},
            {.heads = 32, .kv_heads = 8, .lengths = {4096, 9, 5000}, .page_size = 32}, splits == 8 ? 0 : 16 / splits);
  add({.kv = kv_q8, .layout = kv_paged, .splits = 2, .stages = 3, .chained = 1},
      {.heads = 32, .kv_heads = 8, .lengths = {32768}, .page_size = 32}, 8);
  for (uint32_t kv : {kv_f16, kv_q8})
    add({.kv = kv, .layout = kv_paged, .splits = 8, .rows = 8, .stages = 3, .warps = 4, .chained = 1, .fresh = 1},
        {.heads = 32,
         .kv_heads = 8,
         .lengths = {700, 701, 702, 703, 9, 2000, 1, 2},
         .page_size = 32,
         .sequence_of = {0, 0, 0, 0, 1, 2, 3, 3}});
  for (uint32_t kv : {kv_f16, kv_q8})
    cases.push_back(steady(kv, {.heads = 32,
                                .kv_heads = 8,
                                .lengths = {700, 701, 702, 703, 9, 5000, 1, 2},
                                .page_size = 32,
                                .sequence_of = {0, 0, 0, 0, 1, 2, 3, 3}}));
  for (uint32_t splits : {2u, 4u, 8u, 16u})
    for (uint32_t clusters : {2u, 7u, 16u})
      add({.layout = kv_paged, .splits = splits, .chained = 1},
          {.heads = 32, .kv_heads = 8, .lengths = {4096, 1, 8191, 700, 0, 2048, 33, 5000}, .page_size = 64}, clusters);
  for (uint32_t length : {512u, 4096u, 32768u})
    for (uint32_t chained : {0u, 1u})
      add({.stages = 5, .chained = chained}, {.heads = 32, .kv_heads = 8, .lengths = {length}});
  add({.layout = kv_paged, .splits = 4},
      {.heads = 32, .kv_heads = 8, .lengths = {4096, 1, 8191, 700, 0, 2048, 33, 5000}, .page_size = 64});
  for (uint32_t dim : head_dims)
    if (dim > 32) add({}, {.head_dim = dim, .heads = 16, .kv_heads = 2, .lengths = {5001}});
}

}  // namespace

void add_attention_cases(Sweep sweep, std::vector<Case>& cases) {
  add_simt(sweep, cases);
  add_cluster(sweep, cases);
  add_prompt_attention_cases(sweep, cases);
}

}  // namespace heddle::proof

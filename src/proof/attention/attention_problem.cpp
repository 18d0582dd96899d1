// Fills the cache in one of three layouts and computes the reference in f64.
#include "proof/attention/attention_problem.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace heddle::proof {

std::string AttentionShape::text() const {
  std::string t = fmt::format("heads={}/{} lengths={}", heads, kv_heads, fmt::join(lengths, ","));
  if (page_size != 16) t += fmt::format(" page_size={}", page_size);
  t += sight().text();
  if (softcap > 0) t += fmt::format(" softcap={}", softcap);
  if (!sequence_of.empty()) t += fmt::format(" of={}", fmt::join(sequence_of, ","));
  return t;
}

// The cache as rows of head_dim, all NaN but for what put() writes.
struct AttentionProblem::Rows {
  std::vector<float> x;
  uint32_t head_dim;
  Rows(size_t rows, uint32_t dim) : x(rows * dim, std::numeric_limits<float>::quiet_NaN()), head_dim(dim) {}
  void put(size_t row, const float* from) { std::copy(from, from + head_dim, x.begin() + ptrdiff_t(row * head_dim)); }
};

AttentionProblem::AttentionProblem(Machine& m, Random& random, const AttentionShape& shape, uint32_t kv,
                                   uint32_t layout)
    : shape_(shape), kv_(kv), layout_(layout), heads_(random, shape.sight(), shape.heads) {
  q_ = random.normals(shape.lengths.size() * shape.heads * shape.head_dim, shape.q_size);
  const size_t row = size_t(shape.kv_heads) * shape.head_dim;  // of a position
  for (uint32_t length : longest_by_sequence()) {
    max_len_ = std::max(max_len_, length + 3);
    for (auto* all : {&k_, &v_}) all->push_back(random.normals(length * row));
  }
  auto each_head = [&](auto&& f) {
    for (auto* all : {&k_, &v_})
      for (auto& values : *all)
        for (size_t i = 0; i < values.size(); i += shape.head_dim) f(&values[i]);
  };
  each_head([&](float* x) { KvRows(1, shape.head_dim, kv).put(0, x); });
  place(m, random);
  // what the matrix units are given; rounding before placing would quantise twice
  if (kv == kernels::kv_q8) each_head([&](float* x) { KvRows(1, shape.head_dim, kernels::kv_f16).put(0, x); });
  solve();
}

ptx::DevicePtr<float> AttentionProblem::spread_q(Machine& m, uint32_t stride) const {
  const size_t row = size_t(shape_.heads) * shape_.head_dim, rows = shape_.lengths.size();
  std::vector<float> q(rows * stride, std::numeric_limits<float>::quiet_NaN());
  for (size_t r = 0; r < rows; ++r)
    std::copy_n(q_.begin() + ptrdiff_t(r * row), row, q.begin() + ptrdiff_t(r * stride));
  return m.put(q);
}

std::vector<uint32_t> AttentionProblem::longest_by_sequence() const {
  std::vector<uint32_t> lengths;
  for (size_t r = 0; r < shape_.lengths.size(); ++r) {
    if (sequence(r) >= lengths.size()) lengths.resize(sequence(r) + 1);
    lengths[sequence(r)] = std::max(lengths[sequence(r)], shape_.lengths[r]);
  }
  return lengths;
}

ptx::DevicePtr<uint8_t> AttentionProblem::upload(Machine& m, Rows& rows, ptx::DevicePtr<f16>& scales) const {
  if (kv_ == kernels::kv_q8) {
    KvRows q8(rows.x.size() / rows.head_dim, rows.head_dim, kv_);
    for (size_t i = 0; i < rows.x.size(); i += rows.head_dim)
      if (!std::isnan(rows.x[i])) q8.put(i / rows.head_dim, &rows.x[i]);
    scales = m.put(q8.scales);
    return m.put(q8.bytes);
  }
  std::vector<uint8_t> bytes(rows.x.size() * 2);
  for (size_t i = 0; i < rows.x.size(); ++i) {
    const f16 half = to_f16(rows.x[i]);
    std::memcpy(&bytes[i * 2], &half, 2);
  }
  return m.put(bytes);
}

void AttentionProblem::place(Machine& m, Random& random) {
  const uint32_t head_dim = shape_.head_dim, kv_heads = shape_.kv_heads;
  q_at_ = m.put(q_);
  if (shape_.sinks) sinks_ = m.put(heads_.sinks);
  if (shape_.slopes) slopes_ = m.put(heads_.slopes);
  lengths_ = m.put(std::vector<int32_t>(shape_.lengths.begin(), shape_.lengths.end()));
  if (layout_ == kernels::kv_paged) return place_in_pages(m, random);
  std::vector<uint64_t> k_base, v_base;
  for (size_t s = 0; s < longest_by_sequence().size(); ++s) {
    Rows k(size_t(kv_heads) * max_len_, head_dim), v = k;
    for (uint32_t p = first(shape_.lengths[s]); p < shape_.lengths[s]; ++p)
      for (uint32_t h = 0; h < kv_heads; ++h) {
        const size_t to = size_t(h) * max_len_ + p, from = (size_t(p) * kv_heads + h) * head_dim;
        k.put(to, &k_[s][from]);
        v.put(to, &v_[s][from]);
      }
    k_at_ = upload(m, k, k_scale_);
    v_at_ = upload(m, v, v_scale_);
    k_base.push_back(k_at_.address);
    v_base.push_back(v_at_.address);
  }
  k_base_ = m.put(k_base);
  v_base_ = m.put(v_base);
  if (layout_ == kernels::kv_batched) k_at_ = v_at_ = {};
}

// Pages in random order, with some that belong to no sequence; table entries of absent pages are out of range.
void AttentionProblem::place_in_pages(Machine& m, Random& random) {
  const uint32_t head_dim = shape_.head_dim, kv_heads = shape_.kv_heads, page_size = shape_.page_size;
  const std::vector<uint32_t>& lengths = shape_.lengths;
  table_stride_ = (max_len_ + page_size - 1) / page_size + 1;
  std::vector<int32_t> order(longest_by_sequence().size() * table_stride_), table(order.size(), 0x7fffffff);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(uint32_t(i))]);
  Rows k(order.size() * kv_heads * page_size, head_dim), v = k;
  for (size_t r = 0; r < lengths.size(); ++r) {
    const size_t s = sequence(r);
    for (uint32_t p = first(lengths[r]); p < lengths[r]; ++p) {
      const size_t entry = s * table_stride_ + p / page_size;
      table[entry] = order[entry];
      for (uint32_t h = 0; h < kv_heads; ++h) {
        const size_t to = (size_t(order[entry]) * kv_heads + h) * page_size + p % page_size;
        const size_t from = (size_t(p) * kv_heads + h) * head_dim;
        k.put(to, &k_[s][from]);
        v.put(to, &v_[s][from]);
      }
    }
  }
  k_at_ = upload(m, k, k_scale_);
  v_at_ = upload(m, v, v_scale_);
  table_ = m.put(table);
}

void AttentionProblem::solve() {
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
        scores.push_back(heads_.score(score, h, end - 1, p));
      }
      heads_.weigh(scores, h);
      for (uint32_t i = 0; i < dim; ++i) {
        double want = 0, size = 0;
        for (uint32_t p = begin; p < end; ++p) {
          const double part = scores[p - begin] * row(v_[s], p)[i];
          want += part;
          size += std::abs(part);
        }
        want_.push_back(want);
        size_.push_back(size);
      }
    }
}

}  // namespace heddle::proof

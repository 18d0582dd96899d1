// Inputs of attention: a paged KV cache, and a problem with its f64 reference.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "base/f16.h"
#include "kernels/attention/kv_cache.h"
#include "proof/bench.h"
#include "proof/case.h"
#include "quant/kv_q8.h"

namespace heddle::proof {

// Which positions a token sees, and what its scores are given besides.
struct Sight {
  uint32_t window = 0;         // 0: none
  uint32_t chunk = 0;          // 0: none
  bool bidirectional = false;  // the whole text, or window / 2 on both sides
  bool sinks = false, slopes = false;

  uint32_t first(uint32_t position) const {
    const uint32_t before = bidirectional ? window / 2 : window - 1;
    const uint32_t from = window && position > before ? position - before : 0;
    return chunk ? std::max(from, position - position % chunk) : from;
  }
  // Of a text of `length` positions.
  uint32_t end(uint32_t position, uint32_t length) const {
    if (!bidirectional) return position + 1;
    return window ? uint32_t(std::min<uint64_t>(length, uint64_t(position) + window / 2 + 1)) : length;
  }
  std::string text() const {
    std::string t;
    if (window) t += fmt::format(" window={}", window);
    if (chunk) t += fmt::format(" chunk={}", chunk);
    if (bidirectional) t += " bidirectional";
    if (sinks) t += " sinks";
    if (slopes) t += " slopes";
    return t;
  }
  // The fields of a kernel that say the same.
  void set(auto& spec) const {
    if constexpr (requires { spec.window; }) spec.window = window > 0;
    if constexpr (requires { spec.bidirectional; }) spec.bidirectional = bidirectional;
    spec.chunk = chunk > 0;
    spec.sinks = sinks;
    spec.slopes = slopes;
  }
};

// What the heads have: sinks as large as scores, and slopes by which distances of 2 to 50 count as much.
struct HeadScores {
  std::vector<float> sinks, slopes;
  HeadScores(Random& random, const Sight& sight, uint32_t heads) {
    if (sight.sinks) sinks = random.normals(heads, 2);
    for (uint32_t h = 0; sight.slopes && h < heads; ++h) slopes.push_back(0.02f * float(1 + random.below(25)));
  }
  void put(Machine& m, kernels::AttentionArgs& args) const {
    if (!sinks.empty()) args.sinks = m.put(sinks);
    if (!slopes.empty()) args.slopes = m.put(slopes);
  }
  double score(double score, uint32_t head, uint32_t own, uint32_t at) const {
    return slopes.empty() ? score : score - double(slopes[head]) * std::abs(double(own) - at);
  }
  // From scores to weights; the largest score, the sink among them.
  double weigh(std::vector<double>& scores, uint32_t head) const {
    double top = sinks.empty() ? -INFINITY : double(sinks[head]);
    for (double score : scores) top = std::max(top, score);
    double sum = sinks.empty() ? 0 : std::exp(sinks[head] - top);
    for (double& x : scores) sum += x = std::exp(x - top);
    for (double& x : scores) x /= sum;
    return sum;
  }
};

// A paged cache as a case fills it: its pages, and the rows in them.

// Rows of a cache as the device has them, f16 or q8, all NaN but for those that were put.
struct KvRows {
  uint32_t size, kv;  // values of a row, kernels::kv_f16 or kv_q8
  std::vector<uint8_t> bytes;
  std::vector<f16> scales;  // q8

  KvRows(size_t rows, uint32_t size_, uint32_t kv_)
      : size(size_), kv(kv_), bytes(rows * size * (kv == kernels::kv_q8 ? 1 : 2), 0x7e) {  // 0x7e7e is a NaN
    const f16 nan = to_f16(std::numeric_limits<float>::quiet_NaN());
    if (kv == kernels::kv_q8) scales.assign(rows * quant::kv_q8_groups(size), nan);
  }

  // Values become what the cache keeps of them; with `rounded`, what the matrix units are given: that as f16.
  void put(size_t row, float* values, bool rounded = false) {
    if (kv == kernels::kv_q8)
      for (uint32_t at = 0; at < size; at += quant::kv_q8_values) {
        auto* q = reinterpret_cast<int8_t*>(&bytes[row * size + at]);
        const uint32_t count = std::min(quant::kv_q8_values, size - at);
        const uint16_t scale = quant::encode_kv_q8(values + at, q, count);
        scales[row * quant::kv_q8_groups(size) + at / quant::kv_q8_values] = f16{scale};
        quant::decode_kv_q8(scale, q, values + at, count);
      }
    for (uint32_t i = 0; i < size; ++i) {
      const f16 half = to_f16(values[i]);
      if (kv == kernels::kv_f16) std::memcpy(&bytes[(row * size + i) * 2], &half, 2);
      if (kv == kernels::kv_f16 || rounded) values[i] = to_f32(half);
    }
  }
};

// A q8 cache that a kernel writes, before and after, filled with 0x5a.
struct Q8Cache {
  uint32_t size;  // of a head
  std::vector<uint8_t> q;
  std::vector<f16> scales;
  Q8Cache(size_t rows, uint32_t head) : size(head), q(rows * head, 0x5a), scales(rows * groups(), f16{0x5a5a}) {}
  uint32_t groups() const { return quant::kv_q8_groups(size); }

  // f(group, its first value, the one behind its last).
  void each_group(auto&& f) const {
    for (uint32_t g = 0; g < groups(); ++g) f(g, g * 32, std::min(g * 32 + 32, size));
  }
  // The scale and values of each group, and how far they may be from what they stand for.
  void expect(Check& check, size_t row, const double* value, const double* error) const {
    std::vector<float> got;
    std::vector<double> want, bound;
    each_group([&](uint32_t group, uint32_t first, uint32_t end) {
      double largest = 0, off = 0;
      for (uint32_t i = first; i < end; ++i) {
        largest = std::max(largest, std::abs(value[i]));
        off = std::max(off, error[i]);
      }
      const double scale = to_f32(scales[row * groups() + group]);
      got.push_back(float(scale));
      want.push_back(largest / 127);
      bound.push_back(largest / 127 * 0x1.01p-11 + off / 127);
      for (uint32_t i = first; i < end; ++i) {
        got.push_back(float(scale * int8_t(q[row * size + i])));
        want.push_back(value[i]);
        bound.push_back(scale * 0.5001 + error[i]);
      }
    });
    check.near("q8 values", got, want, bound, 1);
  }
  void encode(size_t row, const float* values) {
    each_group([&](uint32_t group, uint32_t first, uint32_t end) {
      auto* to = reinterpret_cast<int8_t*>(&q[row * size + first]);
      scales[row * groups() + group] = f16{quant::encode_kv_q8(values + first, to, end - first)};
    });
  }
  void copy(size_t row, const Q8Cache& from) {
    std::copy_n(from.q.begin() + ptrdiff_t(row * size), size, q.begin() + ptrdiff_t(row * size));
    const size_t first = row * groups();
    std::copy_n(from.scales.begin() + ptrdiff_t(first), groups(), scales.begin() + ptrdiff_t(first));
  }
};

// Pages of a paged cache for the positions that a case needs, in random order; all other entries are out of range.
class PageTable {
 public:
  PageTable(uint32_t sequences, uint32_t last_position, uint32_t page_size)
      : page_size_(page_size),
        stride_(last_position / page_size + 2),
        table_(size_t(sequences) * stride_, 0x7fffffff) {}

  void need(uint32_t sequence, uint32_t position) { table_[size_t(sequence) * stride_ + position / page_size_] = -1; }
  // Call after all needs: gives each its page, and adds two pages that belong to no sequence.
  void place(Random& random) {
    std::vector<int32_t*> entries;
    for (int32_t& entry : table_)
      if (entry == -1) entries.push_back(&entry);
    pages_ = uint32_t(entries.size()) + 2;
    std::vector<int32_t> order(pages_);
    std::iota(order.begin(), order.end(), 0);
    for (uint32_t i = pages_; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (size_t i = 0; i < entries.size(); ++i) *entries[i] = order[i];
  }

  // The row of a position and kv head, counted over the cache.
  size_t row(uint32_t sequence, uint32_t position, uint32_t kv_heads, uint32_t kv_head) const {
    const size_t page = size_t(table_[size_t(sequence) * stride_ + position / page_size_]);
    return (page * kv_heads + kv_head) * page_size_ + position % page_size_;
  }
  size_t rows(uint32_t kv_heads) const { return size_t(pages_) * kv_heads * page_size_; }
  uint32_t stride() const { return stride_; }
  const std::vector<int32_t>& table() const { return table_; }

 private:
  uint32_t page_size_, stride_, pages_ = 0;
  std::vector<int32_t> table_;
};

// One new token per sequence over its KV cache: inputs in device memory in any layout, the f64 reference, and inputs to
// time.

inline const std::vector<uint32_t> attention_head_dims = {64, 80, 96, 112, 128, 160, 192, 256};
// Around every place where a share, a stage or a group of positions may end.
inline const std::vector<uint32_t> attention_edge_lengths = {0, 1, 2, 15, 16, 17, 127, 128, 129};

struct AttentionShape {
  uint32_t head_dim = 128, heads = 2, kv_heads = 1;
  std::vector<uint32_t> lengths;  // of each row's sequence, the row's own position included
  uint32_t page_size = 16;
  uint32_t window = 0;  // 0: no window
  float softcap = 0;    // 0: no soft-cap
  float q_size = 2;     // of q: spreads the scores
  uint32_t chunk = 0;   // 0: no chunks
  bool sinks = false, slopes = false;
  // The sequence of each row, where several rows are tokens of one sequence; empty: every row has its own.
  std::vector<uint32_t> sequence_of{};

  Sight sight() const { return {.window = window, .chunk = chunk, .sinks = sinks, .slopes = slopes}; }
  std::string text() const;
};

// What a kernel must not read (positions behind the end or before the window, pages that belong to no sequence) is NaN,
// so that reading it shows.
class AttentionProblem {
 public:
  AttentionProblem(Machine& m, Random& random, const AttentionShape& shape, uint32_t kv, uint32_t layout);

  // The arguments, but for `out` and those of a spec.
  kernels::TokenAttentionArgs args() const {
    kernels::TokenAttentionArgs a{};
    a.q = q_at_;
    a.k = k_at_;
    a.v = v_at_;
    a.k_scale = k_scale_;
    a.v_scale = v_scale_;
    a.k_base = k_base_;
    a.v_base = v_base_;
    a.table = table_;
    a.lengths = lengths_;
    a.sequences = uint32_t(shape_.lengths.size());
    a.heads = shape_.heads;
    a.kv_heads = shape_.kv_heads;
    a.length = shape_.lengths.empty() ? 0 : shape_.lengths[0];
    a.max_len = max_len_;
    a.page_size = shape_.page_size;
    a.table_stride = table_stride_;
    a.window = shape_.window;
    a.scale = scale_;
    a.softcap = shape_.softcap;
    a.chunk = shape_.chunk;
    a.sinks = sinks_;
    a.slopes = slopes_;
    return a;
  }
  size_t outputs() const { return q_.size(); }
  void check(Check& check, std::span<const float> out, double bound) const {
    check.near("out", out, want_, size_, bound);
  }
  // q with gaps of NaN between its rows.
  ptx::DevicePtr<float> spread_q(Machine& m, uint32_t stride) const;

 private:
  uint32_t sequence(size_t row) const { return shape_.sequence_of.empty() ? uint32_t(row) : shape_.sequence_of[row]; }
  std::vector<uint32_t> longest_by_sequence() const;
  uint32_t first(uint32_t length) const { return length ? shape_.sight().first(length - 1) : 0; }
  struct Rows;
  ptx::DevicePtr<uint8_t> upload(Machine& m, Rows& rows, ptx::DevicePtr<f16>& scales) const;
  void place(Machine& m, Random& random);
  void place_in_pages(Machine& m, Random& random);
  void solve();

  AttentionShape shape_;
  uint32_t kv_, layout_;
  HeadScores heads_;
  uint32_t max_len_ = 0, table_stride_ = 0;
  float scale_ = 0;
  std::vector<float> q_;
  std::vector<std::vector<float>> k_, v_;  // per sequence (length, kv_heads, head_dim)
  std::vector<double> want_, size_;        // size: of the terms that `want` is the sum of
  ptx::DevicePtr<float> q_at_, sinks_, slopes_;
  ptx::DevicePtr<uint8_t> k_at_, v_at_;
  ptx::DevicePtr<f16> k_scale_, v_scale_;  // q8
  ptx::DevicePtr<uint64_t> k_base_, v_base_;
  ptx::DevicePtr<int32_t> table_, lengths_;
};

// What is timed: one sequence, 32 heads over 8 kv heads of 128.
struct AttentionBench {
  static constexpr uint32_t heads = 32, kv_heads = 8, head_dim = 128;
  static constexpr uint32_t sms = 132;  // that choices are made for

  // Arguments for round r, over several caches of random halves around 1 that serve every layout.
  static std::function<kernels::TokenAttentionArgs(uint32_t)> inputs(Machine& m, Random& random, uint32_t length) {
    const size_t values = size_t(kv_heads) * length * head_dim;
    std::vector<uint8_t> one = random.bytes(values * 2);
    for (size_t i = 1; i < one.size(); i += 2) one[i] = uint8_t(0x38 | (one[i] & 0x83));  // exponents of 0.5 to 1
    kernels::TokenAttentionArgs args{};
    args.q = m.put(random.normals(heads * head_dim));
    args.out = m.poisoned<float>(heads * head_dim);
    args.lengths = m.put(std::vector{int32_t(length)});
    args.sequences = 1;
    args.heads = heads;
    args.kv_heads = kv_heads;
    args.length = args.max_len = length;
    args.scale = 1 / std::sqrt(float(head_dim));
    args.page_size = 64;
    args.table_stride = length / 64;
    std::vector<int32_t> pages(args.table_stride);
    for (uint32_t i = 0; i < pages.size(); ++i)
      pages[i] = int32_t((i * 37 + 5) % pages.size());  // every page once: 37 is odd, their number a power of two
    args.table = m.put(pages);
    std::vector<kernels::TokenAttentionArgs> rotation;
    for (uint32_t i = 0; i < copies(double(values) * 4); ++i) {
      args.k = m.put(one);
      args.v = m.put(one);
      args.k_base = m.put(std::vector{args.k.address});
      args.v_base = m.put(std::vector{args.v.address});
      rotation.push_back(args);
    }
    return [=](uint32_t r) { return rotation[r % rotation.size()]; };
  }

  static Bench bench(std::string kernel, uint32_t length, const std::string& fields, std::string target,
                     decltype(Bench::prepare) prepare) {
    return {std::move(kernel),
            fmt::format("{} positions, {}/{} heads of {}{}", length, heads, kv_heads, head_dim, fields),
            std::move(target),
            4.0 * kv_heads * length * head_dim,
            4.0 * heads * length * head_dim,
            std::move(prepare)};
  }
};

}  // namespace heddle::proof

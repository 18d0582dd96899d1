// The forms of all rows lie in one array each.
#include "cpu/rows.h"

#include <algorithm>

namespace heddle::cpu {

RowSizes::RowSizes(const model::Model& model) {
  const auto grow = [](uint64_t& to, uint64_t size) { to = std::max(to, size); };
  const model::Overloaded measure{[&](const model::Attention& a) {
                                    grow(q, uint64_t(a.heads) * a.head);
                                    grow(k, uint64_t(a.kv_heads) * a.head);
                                    if (!a.latent) grow(v, uint64_t(a.kv_heads) * a.value_head);
                                    grow(attended, a.output_cols());
                                    if (!a.latent) return;
                                    grow(low, a.latent->q_down.rows);
                                    grow(heads, a.heads);
                                    grow(by_head, std::max(a.latent->plain, a.latent->rank));
                                  },
                                  [&](const model::FeedForward& f) { grow(inner, f.down.cols); },
                                  [&](const model::Mixture& m) {
                                    grow(inner, m.down.all.cols);
                                    grow(used, m.routing.used);
                                    grow(experts, m.router.rows);
                                    if (m.shared) grow(shared, m.shared->down.cols);
                                  }};
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers) std::visit(measure, sublayer);
}

Rows::Rows(uint32_t rows, uint32_t cols, bool by_32, bool by_256) : cols_(cols), f32_(uint64_t(rows) * cols) {
  for (uint64_t i = 0; i < rows; ++i) pointers_.push_back(row(i));
  if (by_32) {
    const uint64_t blocks = cols / 32;
    q_32_.resize(uint64_t(rows) * cols);
    d_32_.resize(rows * blocks);
    sums_32_.resize(rows * blocks * 2);
    for (uint64_t i = 0; i < rows; ++i)
      by_32_.push_back({q_32_.data() + i * cols, d_32_.data() + i * blocks, sums_32_.data() + i * blocks * 2, nullptr});
  }
  if (by_256) {
    const uint64_t blocks = cols / 256;
    q_256_.resize(uint64_t(rows) * cols);
    d_256_.resize(rows * blocks);
    sums_256_.resize(rows * blocks * 16);
    split_sums_.resize(rows * blocks * 48);
    for (uint64_t i = 0; i < rows; ++i)
      by_256_.push_back({q_256_.data() + i * cols, d_256_.data() + i * blocks, sums_256_.data() + i * blocks * 16,
                         split_sums_.data() + i * blocks * 48});
  }
}

void Rows::finish(uint64_t i, const Isa& isa) {
  if (!by_32_.empty()) {
    const uint64_t blocks = cols_ / 32;
    isa.quantise_32(row(i), cols_, q_32_.data() + i * cols_, d_32_.data() + i * blocks,
                    sums_32_.data() + i * blocks * 2);
  }
  if (!by_256_.empty()) {
    const uint64_t blocks = cols_ / 256;
    isa.quantise_256(row(i), cols_, q_256_.data() + i * cols_, d_256_.data() + i * blocks,
                     sums_256_.data() + i * blocks * 16, split_sums_.data() + i * blocks * 48);
  }
}

void GatheredRows::add(const Rows& rows, uint64_t index) {
  f32_.push_back(rows.pointers_[index]);
  if (!rows.by_32_.empty()) by_32_.push_back(rows.by_32_[index]);
  if (!rows.by_256_.empty()) by_256_.push_back(rows.by_256_[index]);
}

void GatheredRows::clear() {
  f32_.clear();
  by_32_.clear();
  by_256_.clear();
}

}  // namespace heddle::cpu

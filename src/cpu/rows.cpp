// The forms of all rows lie in one array each.
#include "cpu/rows.h"

#include <algorithm>

namespace heddle::cpu {
namespace {

int8_t* bytes(const Pages& pages) { return reinterpret_cast<int8_t*>(pages.data()); }

// A cache line lies between rows: rows of a power of two would share a few places of the first cache.
uint64_t stride(uint64_t row_bytes) { return row_bytes + 64; }

}  // namespace

RowSizes::RowSizes(const model::Model& model) {
  const auto grow = [](uint64_t& to, uint64_t size) { to = std::max(to, size); };
  const model::Overloaded measure{[&](const model::Attention& a) {
                                    grow(q, uint64_t(a.heads) * a.head);
                                    grow(k, uint64_t(a.kv_heads) * a.head);
                                    if (!a.latent) grow(v, uint64_t(a.kv_heads) * a.value_head);
                                    grow(attended, a.output_cols());
                                    grow(gate, a.gate.rows);
                                    if (a.laurel) grow(laurel, a.laurel->down.rows);
                                    if (!a.latent) return;
                                    grow(low, a.latent->q_down.rows);
                                    grow(heads, a.heads);
                                    grow(by_head, std::max(a.latent->plain, a.latent->rank));
                                  },
                                  [&](const model::FeedForward& f) {
                                    grow(inner, f.down.cols);
                                    if (f.cutoff) grow(cut, f.down.cols);
                                  },
                                  [&](const model::Mixture& m) {
                                    grow(inner, m.down.all.cols);
                                    grow(used, m.routing.used);
                                    grow(experts, m.router.rows);
                                    if (m.shared) grow(shared, m.shared->down.cols);
                                    grow(latent, m.latent_down.rows);
                                  },
                                  [&](const model::Recurrence& r) {
                                    grow(mixed, r.mixed.rows);
                                    grow(gate, r.gate.rows);
                                    grow(steps, r.steps.rows + r.betas.rows);
                                    grow(recurred, r.values());
                                  },
                                  [&](const model::ShortConvolution& c) {
                                    grow(mixed, c.in.rows);
                                    grow(recurred, c.output.cols);
                                  },
                                  [&](const model::Altup& a) { grow(others, a.others); },
                                  [&](const model::NextHead& h) { grow(joined, h.join.cols); }};
  for (const model::Layer& layer : model.layers)
    for (const model::Sublayer& sublayer : layer.sublayers) {
      std::visit(measure, sublayer);
      partial = partial || model::is_partial(sublayer);
    }
  if (model.token_inputs) token_inputs = model.token_inputs->count();
}

Rows::Rows(uint32_t rows, uint32_t cols, const RowForms& forms) : cols_(cols), f32_(uint64_t(rows) * cols) {
  for (uint64_t i = 0; i < rows; ++i) pointers_.push_back(row(i));
  if (forms.by_32) {
    const uint64_t blocks = cols / 32;
    q_32_ = Pages(rows * stride(cols));
    d_32_.resize(rows * blocks);
    sums_32_.resize(rows * blocks * 2);
    for (uint64_t i = 0; i < rows; ++i)
      by_32_.push_back(
          {bytes(q_32_) + i * stride(cols), d_32_.data() + i * blocks, sums_32_.data() + i * blocks * 2, nullptr});
  }
  if (forms.by_256) {
    const uint64_t blocks = cols / 256;
    q_256_ = Pages(rows * stride(cols));
    d_256_.resize(rows * blocks);
    sums_256_.resize(rows * blocks * 16);
    split_sums_.resize(rows * blocks * 48);
    for (uint64_t i = 0; i < rows; ++i)
      by_256_.push_back({bytes(q_256_) + i * stride(cols), d_256_.data() + i * blocks,
                         sums_256_.data() + i * blocks * 16, split_sums_.data() + i * blocks * 48});
  }
  if (forms.bf16) {
    q_bf16_ = Pages(rows * stride(2 * uint64_t(cols)));
    for (uint64_t i = 0; i < rows; ++i)
      bf16_.push_back({bytes(q_bf16_) + i * stride(2 * uint64_t(cols)), nullptr, nullptr, nullptr});
  }
}

void Rows::finish(uint64_t i, const Isa& isa) {
  if (!by_32_.empty()) {
    const uint64_t blocks = cols_ / 32;
    isa.quantise_32(row(i), cols_, bytes(q_32_) + i * stride(cols_), d_32_.data() + i * blocks,
                    sums_32_.data() + i * blocks * 2);
  }
  if (!by_256_.empty()) {
    const uint64_t blocks = cols_ / 256;
    isa.quantise_256(row(i), cols_, bytes(q_256_) + i * stride(cols_), d_256_.data() + i * blocks,
                     sums_256_.data() + i * blocks * 16, split_sums_.data() + i * blocks * 48);
  }
  if (!bf16_.empty()) isa.bf16_of_row(row(i), cols_, bytes(q_bf16_) + i * stride(2 * uint64_t(cols_)));
}

void GatheredRows::add(const Rows& rows, uint64_t index) {
  f32_.push_back(rows.pointers_[index]);
  if (!rows.by_32_.empty()) by_32_.push_back(rows.by_32_[index]);
  if (!rows.by_256_.empty()) by_256_.push_back(rows.by_256_[index]);
  if (!rows.bf16_.empty()) bf16_.push_back(rows.bf16_[index]);
}

void GatheredRows::clear() {
  f32_.clear();
  by_32_.clear();
  by_256_.clear();
  bf16_.clear();
}

}  // namespace heddle::cpu

// Attention of the fast backend.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cpu/cpu_backend.h"

namespace heddle::cpu {

using model::Norm;
using model::Overloaded;

void Cpu::compute(const AttentionWeights& w) {
  const model::Attention& a = *w.model;
  normalise_rows(a.norm);
  if (a.latent)
    project_latent(w);
  else
    project(w);
  write_cache(w);
  if (a.laurel) project_laurel(w);
  if (a.latent) {
    attend_.run(*batch_, tables_of(w), a, caches_[w.index], q_,
                {by_head_.row(0), uint64_t(a.heads) * by_head_.cols(), by_head_.cols()});
    raise_values(w);
  } else {
    attend_.run(*batch_, tables_of(w), a, caches_[w.index], q_, {attended_.row(0), attended_.cols(), a.value_head});
  }
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    if (w.gate) isa_.gate(gate_.row(i), attended_.row(i), uint32_t(a.gate.rows));
    attended_.finish(i, isa_);
  });
}

const model::BlockTables& Cpu::tables_of(const AttentionWeights& w) const {
  return of_windows_[w.index] ? batch_->window_blocks : batch_->blocks;
}

void Cpu::write_cache(const AttentionWeights& w) {
  const model::Attention& a = *w.model;
  const uint32_t rows = rows_ < 32 ? 1 : 32, heads = rows_ < 32 ? a.kv_heads : 1, parts = a.kv_heads / heads;
  team_.run(uint64_t(rows_ + rows - 1) / rows * parts, [&](uint64_t item, uint32_t) {
    const uint32_t first = uint32_t(item / parts) * rows, first_head = uint32_t(item % parts) * heads;
    for (uint32_t row = first; row < std::min(first + rows, rows_); ++row) {
      const uint32_t position = batch_->positions[row];
      const uint32_t block = tables_of(w)[batch_->sequences[row]][position / limits_.block_tokens];
      for (uint32_t h = first_head; a.fills_cache() && h < first_head + heads; ++h)
        caches_[w.index].put(isa_, h, block, position % limits_.block_tokens, k_.row(row), v_.row(row));
      const float factor = factor_of(a.temperature, position);
      if (factor == 1 || first_head != 0) continue;
      for (uint64_t c = 0; c < uint64_t(a.heads) * a.head; ++c) q_.row(row)[c] *= factor;
    }
  });
}

void Cpu::project(const AttentionWeights& w) {
  const model::Attention& a = *w.model;
  const RowsView x = normed_.view(rows_);
  const bool v_is_k = w.v && w.v == w.k;  // one product, stored twice
  const model::Vector no_bias;
  struct Output {
    const Weights* weights;  // null: no product
    const model::Vector* bias;
    Rows* to;
  };
  const Output all[] = {{w.q, &a.q_bias, &q_},
                        {w.k, &a.k_bias, &k_},
                        {v_is_k ? nullptr : w.v, &a.v_bias, &v_},
                        {w.gate, &no_bias, &gate_}};
  Product some[std::size(all)];
  const Output* outputs[std::size(all)];
  size_t count = 0;
  for (const Output& output : all) {
    if (!output.weights) continue;
    some[count] = {output.weights, nullptr, x};
    outputs[count++] = &output;
  }
  products_.run(std::span(some).first(count), [&](const Piece& piece) {
    const Output& output = *outputs[piece.product];
    store(piece, at(*output.bias, 0), [&](uint32_t row) { return output.to->row(row); });
    if (v_is_k && output.to == &k_) store(piece, at(a.v_bias, 0), [&](uint32_t row) { return v_.row(row); });
  });
  const uint64_t sizes[] = {uint64_t(a.heads) * a.head, uint64_t(a.kv_heads) * a.head,
                            uint64_t(a.kv_heads) * a.value_head};
  const auto rotate = [&](uint32_t row) {
    rotations_.rotate(w.index, row, q_.row(row), a.heads, a.head);
    if (a.fills_cache()) rotations_.rotate(w.index, row, k_.row(row), a.kv_heads, a.head);
  };
  const bool across = squares_.begin(rows_, a.q_norm, a.k_norm);
  if (across) {
    team_.run(rows_, [&](uint64_t row, uint32_t) {
      if (a.norm_after_rope) rotate(uint32_t(row));
      squares_.put(row, a.q_norm, false, square_sum(q_.row(row), sizes[0]));
      squares_.put(row, a.k_norm, true, square_sum(k_.row(row), sizes[1]));
    });
    ranks_.sum(squares_.all());
  }
  const auto normalise_all = [&](const Norm& norm, bool is_second, float* to, uint64_t row, uint64_t size) {
    if (norm.across)
      normalise_across(norm, squares_.of(row, norm, is_second), to, size);
    else
      normalise_heads(norm, to, size, a.head, a.own_head_norms);
  };
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    const uint32_t row = uint32_t(i);
    if (a.norm_after_rope && !across) rotate(row);
    normalise_all(a.q_norm, false, q_.row(row), row, sizes[0]);
    normalise_all(a.k_norm, true, k_.row(row), row, sizes[1]);
    normalise_heads(a.v_norm, v_.row(row), sizes[2], a.value_head, false);
    for (int j = 0; a.clamp_qkv != 0 && j < 3; ++j)
      for (uint64_t c = 0; c < sizes[j]; ++c)
        all[j].to->row(row)[c] = std::clamp(all[j].to->row(row)[c], -a.clamp_qkv, a.clamp_qkv);
    if (!a.norm_after_rope) rotate(row);
  });
}

void Cpu::project_latent(const AttentionWeights& w) {
  const model::Attention& a = *w.model;
  const model::Latent& l = *a.latent;
  const RowsView x = normed_.view(rows_);
  // The plain part of a query goes to by_head_, to be raised; the rotated part to its place in q_.
  const auto store_queries = [&](const Piece& piece) {
    const uint32_t whole = l.plain + l.rotated;
    for (uint32_t i = 0; i < piece.count; ++i)
      for (uint32_t r = 0; r < piece.rows; ++r) {
        const uint64_t head = (piece.first + r) / whole, c = (piece.first + r) % whole;
        const float value = piece.values[uint64_t(i) * piece.stride + r];
        if (c < l.plain)
          by_head_.row(uint64_t(piece.row + i) * a.heads + head)[c] = value;
        else
          q_.row(piece.row + i)[head * a.head + l.rank + c - l.plain] = value;
      }
  };
  const Product two[] = {{w.kv_down, nullptr, x}, {w.q_down ? w.q_down : w.q, nullptr, x}};
  products_.run(two, [&](const Piece& piece) {
    if (piece.product == 0)
      store(piece, nullptr, [&](uint32_t row) { return k_.row(row); });
    else if (w.q_down)
      store(piece, nullptr, [&](uint32_t row) { return low_.row(row); });
    else
      store_queries(piece);
  });
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    const uint32_t row = uint32_t(i);
    normalise(l.kv_norm, k_.row(row), l.rank, k_.row(row));
    rotations_.rotate(w.index, row, k_.row(row) + l.rank, 1, a.head);
    if (!w.q_down) return;
    normalise(l.q_norm, low_.row(row), l.q_down.rows, low_.row(row));
    low_.finish(row, isa_);
  });
  if (w.q_down) {
    const Product queries[] = {{w.q, nullptr, low_.view(rows_)}};
    products_.run(queries, store_queries);
  }
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    rotations_.rotate(w.index, uint32_t(i), q_.row(i) + l.rank, a.heads, a.head);
  });
  multiply_heads(w.k_up, [&](uint32_t row, uint32_t head) { return q_.row(row) + uint64_t(head) * a.head; });
}

void Cpu::raise_values(const AttentionWeights& w) {
  const uint64_t value = w.model->latent->value;
  multiply_heads(w.v_up, [&](uint32_t row, uint32_t head) { return attended_.row(row) + head * value; });
}

void Cpu::add(const AttentionWeights& w, float scale) {
  const model::Attention& a = *w.model;
  const Product product[] = {{w.output, nullptr, attended_.view(rows_)}};
  add_product(product, a.output_bias, a, scale);
  if (a.laurel) add_laurel(w);
}

void Cpu::project_laurel(const AttentionWeights& w) {
  const Product down[] = {{w.laurel_down, nullptr, normed_.view(rows_)}};
  products_.run(down,
                [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return laurel_.row(row); }); });
  finish_rows(laurel_, rows_);
}

void Cpu::add_laurel(const AttentionWeights& w) {
  const model::Laurel& l = *w.model->laurel;
  const Product up[] = {{w.laurel_up, nullptr, laurel_.view(rows_)}};
  products_.run(up, [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return out_.row(row); }); });
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    float *x = x_.row(i), *out = out_.row(i), *h = normed_.row(i);
    normalise(l.norm, out, model_.width, out);
    for (uint32_t c = 0; c < model_.width; ++c) x[c] = (x[c] + h[c] + out[c]) * l.scale;
  });
}

}  // namespace heddle::cpu

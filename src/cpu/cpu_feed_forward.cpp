// Feed-forwards and mixtures of the fast backend.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cpu/cpu_backend.h"

namespace heddle::cpu {

using model::Norm;
using model::Overloaded;

void Cpu::compute(const FeedForwardWeights& w) {
  const model::FeedForward& f = *w.model;
  normalise_rows(f.norm);
  if (f.cutoff) return compute_cut(w);
  if (f.token_input) return compute_with_inputs(w);
  const Product product[] = {gated(w.gate, w.up, normed_.view(rows_))};
  products_.run(product, [&](const Piece& piece) {
    activate(
        activation_of(f), piece, [&](uint32_t row) { return inner_.row(row); }, no_factor);
  });
  finish_rows(inner_, rows_);
}

void Cpu::compute_cut(const FeedForwardWeights& w) {
  const model::FeedForward& f = *w.model;
  const RowsView x = normed_.view(rows_);
  const Product two[] = {{w.gate, nullptr, x}, {w.up, nullptr, x}};
  products_.run(two, [&](const Piece& piece) {
    Rows& to = piece.product ? ups_ : inner_;
    store(piece, at(piece.product ? f.up_bias : f.gate_bias, 0), [&](uint32_t row) { return to.row(row); });
  });
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    float* gates = inner_.row(i);
    cut(gates, f.gate.rows, *f.cutoff);
    isa_.activate(uint8_t(f.activation), nullptr, gates, ups_.row(i), uint32_t(f.gate.rows), gates);
    inner_.finish(i, isa_);
  });
}

void Cpu::compute_with_inputs(const FeedForwardWeights& w) {
  const model::FeedForward& f = *w.model;
  const Product product[] = {{w.gate, nullptr, normed_.view(rows_)}};
  products_.run(product, [&](const Piece& piece) {
    for (uint32_t i = 0; i < piece.count; ++i) {
      const uint32_t row = piece.row + i;
      const float* inputs = token_inputs_.row(row) + *f.token_input * f.gate.rows + piece.first;
      isa_.activate(uint8_t(f.activation), nullptr, piece.values + uint64_t(i) * piece.stride, inputs, piece.rows,
                    inner_.row(row) + piece.first);
    }
  });
  finish_rows(inner_, rows_);
}

void Cpu::add(const FeedForwardWeights& w, float scale) {
  if (w.model->to_other_streams) return add_to_others(w);
  const Product product[] = {{w.down, nullptr, inner_.view(rows_)}};
  add_product(product, w.model->down_bias, *w.model, scale);
}

void Cpu::compute(const MixtureWeights& w) {
  const model::Mixture& m = *w.model;
  const bool routes_apart = m.router_norm.kind != Norm::Kind::none;
  normalise_rows(routes_apart ? m.router_norm : m.norm);
  scores_.resize(uint64_t(rows_) * m.router.rows);
  const Product router[] = {{w.router, nullptr, normed_.view(rows_)}};
  products_.run(router, [&](const Piece& piece) {
    store(piece, at(m.router_bias, 0), [&](uint32_t row) { return scores_.data() + uint64_t(row) * m.router.rows; });
  });
  if (routes_apart) normalise_rows(m.norm);
  const bool apart = w.shared && has_own_input(*m.shared);
  if (apart) normalise_rows(m.shared->norm, apart_);
  choice_.pick(m, scores_, normed_, rows_);
  if (w.latent_down) {
    const Product down[] = {{w.latent_down, nullptr, normed_.view(rows_)}};
    products_.run(down,
                  [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return latent_.row(row); }); });
    finish_rows(latent_, rows_);
  }
  const Rows& read = w.latent_down ? latent_ : normed_;

  const size_t experts = w.up.size();
  gathered_.resize(std::max(gathered_.size(), experts));
  gathered_products_.clear();
  for (uint32_t e = 0; e < experts; ++e) {
    gathered_[e].clear();
    for (const uint32_t slot : choice_.slots_of[m.first_expert + e]) gathered_[e].add(read, slot / choice_.used);
    gathered_products_.push_back(gated(w.gate[e], w.up[e], gathered_[e].view()));
  }
  if (w.shared)
    gathered_products_.push_back(gated(w.shared->gate, w.shared->up, (apart ? apart_ : normed_).view(rows_)));
  next_products_.clear();
  for (uint32_t e = 0; e < experts; ++e) next_products_.push_back({w.down[e], nullptr, gathered_[e].view()});
  if (w.shared) next_products_.push_back({w.shared->down, nullptr, shared_inner_.view(rows_)});
  const auto activate_piece = [&](const Piece& piece) {
    if (piece.product == experts)
      return activate(
          activation_of(*m.shared), piece, [&](uint32_t row) { return shared_inner_.row(row); }, no_factor);
    const std::vector<uint32_t>& slots = choice_.slots_of[m.first_expert + piece.product];
    const uint64_t first = piece.product * w.up[0]->rows;
    // the expert of weight * x is weight * (the expert of x), up to its biases and activation
    activate(
        {m.activation, {}, at(m.gate_bias, first), at(m.up_bias, first)}, piece,
        [&](uint32_t i) { return inner_.row(slots[i]); },
        [&](uint32_t i) { return m.routing.weigh_input ? choice_.weights[slots[i]] : 1; });
  };
  products_.run(gathered_products_, activate_piece, next_products_);
  finish_rows(inner_, rows_ * choice_.used);
  if (w.shared) finish_rows(shared_inner_, rows_);
}

void Cpu::add(const MixtureWeights& w, float scale) {
  const model::Mixture& m = *w.model;
  const size_t experts = w.down.size();
  gathered_products_.clear();
  for (uint32_t e = 0; e < experts; ++e) {
    gathered_[e].clear();
    for (const uint32_t slot : choice_.slots_of[m.first_expert + e]) gathered_[e].add(inner_, slot);
    gathered_products_.push_back({w.down[e], nullptr, gathered_[e].view()});
  }
  if (w.shared) gathered_products_.push_back({w.shared->down, nullptr, shared_inner_.view(rows_)});
  products_.run(gathered_products_, [&](const Piece& piece) {
    if (piece.product < experts)
      store(piece, at(m.down_bias, piece.product * uint64_t(model_.width)),
            [&](uint32_t i) { return out_.row(choice_.slots_of[m.first_expert + piece.product][i]); });
    else
      store(piece, at(m.shared->down_bias, 0), [&](uint32_t row) { return shared_out_.row(row); });
  });
  if (w.latent_up) raise_latents(w);
  const bool apart = m.adds_normalised();
  const auto add_shared = [&](uint64_t i, uint32_t first, uint32_t count, float* sum) {
    if (!w.shared) return;
    float* out = shared_out_.row(i) + first;
    normalise(m.shared->output_norm, out, count, out);
    const float weight = choice_.shared[i];
    for (uint32_t c = 0; c < count; ++c) sum[c] += weight * out[c];
  };
  const auto sum_results = [&](uint64_t i, uint32_t first, uint32_t count, float* sum) {
    if (w.latent_up)
      std::copy_n(latent_out_.row(i) + first, count, sum);
    else
      sum_experts(m, i, first, count, sum);
    if (!apart) add_shared(i, first, count, sum);
  };
  if (m.partial) {
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      std::fill_n(partial_.row(i), model_.width, 0.0f);
      sum_results(i, 0, model_.width, partial_.row(i));
    });
    sum_across_ranks(partial_);
    if (apart && m.shared && m.shared->partial) sum_across_ranks(shared_out_);
  }
  // Few rows are cut into columns; a norm needs whole rows.
  const bool has_norms = m.output_norm.kind != Norm::Kind::none || m.residual_norm.kind != Norm::Kind::none ||
                         m.experts_norm.kind != Norm::Kind::none ||
                         (m.shared && m.shared->output_norm.kind != Norm::Kind::none);
  const bool whole = has_norms || rows_ >= team_.threads();
  const uint32_t columns = whole ? model_.width : std::min(model_.width, 256u);
  const uint32_t parts = (model_.width + columns - 1) / columns;
  team_.run(uint64_t(rows_) * parts, [&](uint64_t item, uint32_t) {
    const uint64_t i = item / parts;
    const uint32_t first = uint32_t(item % parts) * columns, count = std::min(columns, model_.width - first);
    std::vector<float> sum(count);
    if (m.partial)
      std::copy_n(partial_.row(i) + first, count, sum.data());
    else
      sum_results(i, first, count, sum.data());
    if (apart) {
      normalise(m.experts_norm, sum.data(), count, sum.data());
      add_shared(i, first, count, sum.data());
    }
    normalise(m.output_norm, sum.data(), count, sum.data());
    float* x = x_.row(i) + first;
    for (uint32_t c = 0; c < count; ++c) x[c] += scale * sum[c];
    normalise(m.residual_norm, x, count, x);
  });
}

void Cpu::sum_experts(const model::Mixture& m, uint64_t row, uint32_t first, uint32_t count, float* sum) {
  for (uint32_t j = 0; j < choice_.used; ++j) {
    const uint64_t slot = row * choice_.used + j;
    if (choice_.experts[slot] - m.first_expert >= m.up.count) continue;  // another rank's
    const float weight = m.routing.weigh_input ? 1 : choice_.weights[slot], *out = out_.row(slot) + first;
    for (uint32_t c = 0; c < count; ++c) sum[c] += weight * out[c];
  }
}

void Cpu::raise_latents(const MixtureWeights& w) {
  const auto size = uint32_t(w.model->latent_down.rows);
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    std::fill_n(latent_.row(i), size, 0.0f);
    sum_experts(*w.model, i, 0, size, latent_.row(i));
    latent_.finish(i, isa_);
  });
  const Product up[] = {{w.latent_up, nullptr, latent_.view(rows_)}};
  products_.run(up,
                [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return latent_out_.row(row); }); });
}

}  // namespace heddle::cpu

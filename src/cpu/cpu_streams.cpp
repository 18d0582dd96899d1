// Sublayers of the fast backend with a state or with more than one residual stream, and what they read of a token.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cpu/cpu_backend.h"

namespace heddle::cpu {

using model::Norm;
using model::Overloaded;

void Cpu::find_token_inputs(const model::TokenInputs& t) {
  normalise_rows({});
  const Product product[] = {{weights_.token_inputs, nullptr, normed_.view(rows_)}};
  products_.run(product, [&](const Piece& piece) {
    store(piece, nullptr, [&](uint32_t row) { return token_inputs_.row(row); });
  });
  team_.run(rows_, [&](uint64_t i, uint32_t thread) {
    float* inputs = token_inputs_.row(i);
    normalise_heads(t.norm, inputs, t.count(), t.size, false);
    std::vector<float> embedding(t.count());
    decode_row(t.embedding, nullptr, batch_->tokens[i], embedding.data(), thread);
    for (uint32_t c = 0; c < t.count(); ++c) inputs[c] = (inputs[c] + embedding[c] * t.embedding_scale) * t.scale;
  });
}

void Cpu::compute(const RecurrenceWeights& w) {
  const model::Recurrence& r = *w.model;
  normalise_rows(r.norm);
  const RowsView x = normed_.view(rows_);
  const Product all[] = {{w.mixed, nullptr, x}, {w.gate, nullptr, x}, {w.steps, nullptr, x}, {w.betas, nullptr, x}};
  products_.run(std::span(all).first(w.betas ? 4 : 3), [&](const Piece& piece) {
    Rows* const to[] = {&mixed_, &gate_, &steps_, &steps_};
    const uint32_t behind = piece.product == 3 ? r.heads : 0;  // betas are behind the steps
    store(piece, nullptr, [&](uint32_t row) { return to[piece.product]->row(row) + behind; });
  });
  recurrent_.recur(r, mixed_, gate_, steps_, recurred_);
}

void Cpu::compute(const ShortConvolutionWeights& w) {
  normalise_rows(w.model->norm);
  const Product product[] = {{w.in, nullptr, normed_.view(rows_)}};
  products_.run(product,
                [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return mixed_.row(row); }); });
  recurrent_.convolve(*w.model, mixed_, recurred_);
}

void Cpu::compute(const NextHeadWeights& w) {
  const model::NextHead& head = *w.model;
  if (batch_->predicts) {
    team_.run(rows_,
              [&](uint64_t i, uint32_t) { std::copy_n(results_.row(batch_->after[i]), model_.width, before_.row(i)); });
  } else {
    normalise_rows(model_.norm, results_);
    recurrent_.shift(head, results_, before_);
  }
  team_.run(rows_, [&](uint64_t i, uint32_t thread) {
    float* to = joined_.row(i);
    decode_row(model_.embedding, weights_.embedding, batch_->tokens[i], to, thread);
    for (uint32_t c = 0; c < model_.width; ++c) to[c] *= model_.embedding_scale;
    normalise(head.token_norm, to, model_.width, to);
    normalise(head.hidden_norm, before_.row(i), model_.width, to + model_.width);
    joined_.finish(i, isa_);
  });
}

void Cpu::add(const NextHeadWeights& w, float) {
  const Product product[] = {{w.join, nullptr, joined_.view(rows_)}};
  products_.run(product, [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return x_.row(row); }); });
}

void Cpu::add_to_others(const FeedForwardWeights& w) {
  const Product product[] = {{w.down, nullptr, inner_.view(rows_)}};
  products_.run(product,
                [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return out_.row(row); }); });
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    normalise(w.model->output_norm, out_.row(i), model_.width, out_.row(i));
    streams_.add(i, out_.row(i));
  });
}

void Cpu::compute(const AltupWeights& w) {
  if (w.model->step == model::Altup::Step::begin) normalise_rows({});
  if (w.model->step == model::Altup::Step::end)
    team_.run(rows_, [&](uint64_t i, uint32_t) { streams_.finish(i, isa_); });
}

void Cpu::add(const AltupWeights& w, float) {
  using enum model::Altup::Step;
  const model::Altup& a = *w.model;
  for (uint32_t s = 0; s < w.projections.size(); ++s) {
    const Product product[] = {
        {w.projections[s], nullptr, a.step == begin ? normed_.view(rows_) : streams_.view(s, rows_)}};
    products_.run(product,
                  [&](const Piece& piece) { store(piece, nullptr, [&](uint32_t row) { return out_.row(row); }); });
    team_.run(rows_, [&](uint64_t i, uint32_t) {
      if (a.step == begin) streams_.begin(s, i, x_.row(i), out_.row(i));
      if (a.step == end) streams_.add_to_mean(s, i, x_.row(i), out_.row(i));
    });
  }
  if (a.step == begin) return;
  team_.run(rows_, [&](uint64_t i, uint32_t) {
    if (a.step == predict) streams_.predict(a, i, x_.row(i));
    if (a.step == correct) streams_.correct(a, i, x_.row(i));
    if (a.step == end) streams_.finish_mean(i, x_.row(i));
  });
}

}  // namespace heddle::cpu

// Small models built by hand: 4 heads of 16 on 2 kv heads (or of 64), width 64, inner 96, 100 tokens, all f32.
#pragma once
#include <deque>

#include "model/backend.h"

namespace heddle::gpu {

struct SmallModel {
  model::Model model;
  std::deque<std::vector<uint8_t>> kept;  // what the matrices point into

  explicit SmallModel(uint32_t layers = 1) {
    using quant::Format;
    model.name = "small";
    model.context = 96;
    model.width = 64;
    model.vocabulary = 100;
    model.embedding = matrix(100, 64);
    model.output = matrix(100, 64);
    model.norm = norm(64);
    for (uint32_t i = 0; i < layers; ++i) {
      model::Attention a;
      a.norm = norm(64);
      a.heads = 4;
      a.kv_heads = 2;
      a.head = a.value_head = 16;
      a.q = matrix(64, 64);
      a.k = matrix(32, 64);
      a.v = matrix(32, 64);
      a.output = matrix(64, 64);
      set_rope(a, model::Rope::Style::pairs, 16);
      model::FeedForward f;
      f.norm = norm(64);
      f.gate = matrix(96, 64);
      f.up = matrix(96, 64);
      f.down = matrix(64, 96);
      model.layers.push_back({.sublayers = {std::move(a), std::move(f)}});
    }
  }
  SmallModel(const SmallModel&) = delete;

  model::Attention& attention() { return model.layers[0].get<model::Attention>(); }
  model::FeedForward& ffn() { return model.layers[0].get<model::FeedForward>(); }
  model::Mixture& mixture() { return model.layers[0].get<model::Mixture>(); }

  model::Matrix matrix(uint64_t rows, uint64_t cols, quant::Format format = quant::Format::f32) {
    const std::vector<uint8_t>& bytes = kept.emplace_back(rows * quant::row_bytes(format, cols));
    return {format, rows, cols, bytes};
  }
  static model::Norm norm(uint32_t size) { return {model::Norm::Kind::rms, model::Vector(size, 1.0f), {}, 1e-5f}; }
  static void set_rope(model::Attention& a, model::Rope::Style style, uint32_t dimensions) {
    a.rope = {.style = style, .dimensions = dimensions, .radians = std::vector<double>(dimensions / 2, 0.5)};
  }
  // The first layer has heads with a recurrent state in place of attention: 2 of (16, 16).
  void make_recurrent() {
    model::Recurrence r;
    r.rule = model::Recurrence::Rule::delta;
    r.norm = norm(64);
    r.heads = 2;
    r.key_heads = 1;
    r.key = r.value = r.norm_size = 16;
    r.mixed = matrix(64, 64);
    r.gate = matrix(32, 64);
    r.steps = matrix(2, 64);
    r.betas = matrix(2, 64);
    r.convolution = {.width = 4, .weight = model::Vector(64 * 4, 0.5f)};
    r.step_bias = {0, 1};
    r.rates = {-1, -2};
    r.gated_norm = norm(32);
    r.output = matrix(64, 32);
    model.layers[0].sublayers[0] = std::move(r);
  }
  // The first layer has what Gemma 3n has: two residual streams, a learned augmented residual, a cutoff, and inputs of
  // each token.
  void make_streams() {
    using Step = model::Altup::Step;
    model::Layer& layer = model.layers[0];
    attention().laurel = model::Laurel{matrix(16, 64), matrix(64, 16), norm(64)};
    ffn().cutoff = 1.5f;
    model.token_inputs = model::TokenInputs{8, matrix(100, 8), matrix(8, 64), norm(8)};
    model::FeedForward inputs;
    inputs.norm = {model::Norm::Kind::scale, model::Vector(64, 1.0f), {}, 0};
    inputs.gate = matrix(8, 64);
    inputs.down = matrix(64, 8);
    inputs.output_norm = norm(64);
    inputs.token_input = 0;
    inputs.to_other_streams = true;
    const auto step = [&](Step which) {
      model::Altup a{.step = which, .others = 1};
      if (which == Step::begin || which == Step::end) {
        a.projections = {1, matrix(64, 64)};
      } else {
        a.norm = norm(64);
        a.router = model::Vector(2 * 64, 0.1f);
        a.coefficients = model::Vector(which == Step::predict ? 8 : 4, 0.5f);
      }
      return a;
    };
    layer.sublayers.insert(layer.sublayers.begin(), {step(Step::begin), step(Step::predict)});
    layer.sublayers.insert(layer.sublayers.end(), {step(Step::correct), std::move(inputs), step(Step::end)});
  }
  // The first layer has latent attention.
  void make_latent() {
    model::Attention& a = model.layers[0].get<model::Attention>();
    model::Latent& l = a.latent.emplace();
    l.rank = 32;
    l.plain = 48;
    l.rotated = l.value = 16;
    a.kv_heads = 1;
    a.head = 48;
    a.value_head = 32;
    a.q = matrix(a.heads * 64, 64);
    a.k = a.v = {};
    l.kv_down = matrix(48, 64);
    l.kv_norm = norm(32);
    l.k_up = {a.heads, matrix(a.heads * 32, 48)};
    l.v_up = {a.heads, matrix(a.heads * 16, 32)};
    a.output = matrix(64, a.heads * 16);
    set_rope(a, model::Rope::Style::pairs, 16);
  }
  // A mixture in place of the feed-forward; `used` of `count` experts of 32 inner values.
  void mix(uint32_t count, uint32_t used) {
    model::Mixture m;
    m.norm = norm(64);
    m.router = matrix(count, 64);
    m.routing.used = used;
    m.gate = {count, matrix(count * 32, 64)};
    m.up = {count, matrix(count * 32, 64)};
    m.down = {count, matrix(count * 64, 32)};
    model.layers[0].sublayers[1] = std::move(m);
  }
};

// Two layers with heads of 64, which the fast kernels take; `joined`: q, k and v in one product.
struct WideModel : SmallModel {
  explicit WideModel(bool joined = true) : SmallModel(2) {
    for (model::Layer& layer : model.layers) {
      model::Attention& a = layer.get<model::Attention>();
      a.head = a.value_head = 64;
      a.q = matrix(256, 64);
      a.k = matrix(128, 64);
      a.v = matrix(128, 64);
      a.output = matrix(64, 256);
      set_rope(a, model::Rope::Style::halves, 64);
      if (!joined) a.q_norm = a.k_norm = norm(64);
    }
  }
};

// A batch of `first` new tokens of each sequence, after `second` that are in the cache.
inline model::Batch batch_of(const std::vector<std::pair<uint32_t, uint32_t>>& rows_after) {
  model::Batch batch;
  for (uint32_t s = 0; s < rows_after.size(); ++s) {
    const auto [rows, after] = rows_after[s];
    for (uint32_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(i % 90);
      batch.sequences.push_back(s);
      batch.positions.push_back(after + i);
    }
    batch.blocks.push_back({2 * s, 2 * s + 1});
    batch.slots.push_back(s);
    if (rows) batch.outputs.push_back(uint32_t(batch.tokens.size() - 1));
  }
  return batch;
}

}  // namespace heddle::gpu

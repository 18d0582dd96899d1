// Small models with random weights, built by hand: one for each feature that a layer can have.
#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "model/backend.h"
#include "model/forward.h"
#include "tests/cpu/random_weights.h"
#include "tests/support/closeness.h"

namespace heddle::test {

struct Shape {
  quant::Format format = quant::Format::f32;
  uint32_t layers = 2, width = 256, heads = 4, kv_heads = 2, head = 64, inner = 512, vocabulary = 203;
  bool tied = false;
};

class Builder {
 public:
  explicit Builder(const Shape& shape) : shape_(shape) {
    model_.context = 4096;
    model_.width = shape.width;
    model_.vocabulary = shape.vocabulary;
    model_.storage.reserve(4096);  // matrices point into it
    model_.embedding = matrix(shape.vocabulary, shape.width, 1);
    for (uint32_t i = 0; i < shape.layers; ++i) model_.layers.push_back(layer());
    model_.norm = norm(shape.width);
    model_.output = shape.tied ? model_.embedding : matrix(shape.vocabulary, shape.width);
  }

  model::Model& model() { return model_; }
  const Shape& shape() const { return shape_; }
  model::Matrix matrix(uint64_t rows, uint64_t cols, double scale = 0) {
    return matrix(shape_.format, rows, cols, scale == 0 ? 1 / std::sqrt(double(cols)) : scale);
  }
  model::Matrix matrix(quant::Format format, uint64_t rows, uint64_t cols, double scale) {
    std::vector<uint8_t>& bytes = model_.storage.emplace_back(random_weights(format, random(rows * cols, scale)));
    return {format, rows, cols, bytes};
  }
  model::Experts experts(uint64_t count, uint64_t rows, uint64_t cols) { return {count, matrix(count * rows, cols)}; }
  std::vector<float> random(uint64_t count, double scale, double mean = 0) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(mean + scale * random_normal());
    return values;
  }
  model::Norm norm(uint64_t size, model::Norm::Kind kind = model::Norm::Kind::rms) {
    return {kind, random(size, 0.1, 1), kind == model::Norm::Kind::layer ? random(size, 0.1) : model::Vector(), 1e-5f};
  }
  model::Rope rope(model::Rope::Style style, uint32_t dimensions, double base = 10000) const {
    model::Rope rope{style, dimensions, {}, 1};
    for (uint32_t i = 0; i < dimensions / 2; ++i) rope.radians.push_back(std::pow(base, -2.0 * i / dimensions));
    return rope;
  }

 private:
  // Nearly normal, up to 3 in magnitude: the sum of three uniform numbers. std::normal_distribution takes ten times as
  // long without optimisation, and most of a test's time.
  double random_normal() {
    uint64_t bits = random_ += 0x9e3779b97f4a7c15;  // splitmix64
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    bits ^= bits >> 31;
    return (double(bits >> 43) + double(bits >> 22 & 0x1fffff) + double(bits >> 1 & 0x1fffff)) * 0x1p-20 - 3;
  }

  model::Layer layer() {
    const Shape& s = shape_;
    model::Attention a;
    a.norm = norm(s.width);
    a.q = matrix(uint64_t(s.heads) * s.head, s.width);
    a.k = matrix(uint64_t(s.kv_heads) * s.head, s.width);
    a.v = matrix(uint64_t(s.kv_heads) * s.head, s.width);
    a.rope = rope(model::Rope::Style::halves, s.head);
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.head = a.value_head = s.head;
    a.scale = 1 / std::sqrt(float(s.head));
    a.output = matrix(s.width, uint64_t(s.heads) * s.head);
    model::FeedForward f;
    f.norm = norm(s.width);
    f.gate = matrix(s.inner, s.width);
    f.up = matrix(s.inner, s.width);
    f.down = matrix(s.width, s.inner);
    return {.sublayers = {std::move(a), std::move(f)}};
  }

  Shape shape_;
  model::Model model_;
  uint64_t random_ = 7;
};

// Six experts of which two are used; the second layer has a shared one as well.
inline Builder mixture(quant::Format format) {
  Builder builder({.format = format});
  for (model::Layer& layer : builder.model().layers) {
    model::Mixture m;
    m.norm = layer.get<model::FeedForward>().norm;
    m.router = builder.matrix(quant::Format::f32, 6, 256, 0.2);
    m.routing = {.used = 2, .weights_sum_to_one = true};
    m.gate = builder.experts(6, 256, 256);
    m.up = builder.experts(6, 256, 256);
    m.down = builder.experts(6, 256, 256);
    layer.sublayers[1] = std::move(m);
  }
  auto& m = builder.model().layers[1].get<model::Mixture>();
  m.routing.weights_sum_to_one = false;
  m.shared_router = builder.random(256, 0.1);
  model::FeedForward& shared = m.shared.emplace();
  shared.gate = builder.matrix(512, 256);
  shared.up = builder.matrix(512, 256);
  shared.down = builder.matrix(256, 512);
  return builder;
}

// Logits of all rows of a sequence that comes in batches of these sizes.
inline std::vector<float> run(const model::Model& model, model::Backend& backend, const model::Limits& limits,
                              const std::vector<uint32_t>& batches) {
  std::vector<float> all;
  uint32_t position = 0;
  std::vector<uint32_t> blocks(limits.kv_blocks);
  std::iota(blocks.rbegin(), blocks.rend(), 0u);  // the last block comes first
  for (const uint32_t size : batches) {
    model::Batch batch;
    for (uint32_t i = 0; i < size; ++i, ++position) {
      batch.tokens.push_back(position * 7919 % model.vocabulary);
      batch.positions.push_back(position);
      batch.sequences.push_back(0);
      batch.outputs.push_back(i);
    }
    batch.blocks = {blocks};
    model::forward(model, backend, batch);
    const auto logits = backend.result().logits;
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

}  // namespace heddle::test

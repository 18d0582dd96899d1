// Sums in f32, in several parts, so that the compiler can use vectors: a Dense module of EmbeddingGemma has 2.4 million
// weights, and every text goes through two.
#include "model/pooled.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace heddle::model {
namespace {

float dot(const float* a, const float* b, size_t size) {
  constexpr size_t parts = 16;
  std::array<float, parts> sums{};
  size_t i = 0;
  for (; i + parts <= size; i += parts)
    for (size_t p = 0; p < parts; ++p) sums[p] += a[i + p] * b[i + p];
  double sum = 0;
  for (const float part : sums) sum += double(part);
  for (; i < size; ++i) sum += double(a[i]) * double(b[i]);
  return static_cast<float>(sum);
}

float activated(Dense::Activation activation, float value) {
  const double x = value;
  switch (activation) {
    case Dense::Activation::identity:
      return value;
    case Dense::Activation::tanh:
      return static_cast<float>(std::tanh(x));
    case Dense::Activation::gelu:
      return static_cast<float>(0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
    case Dense::Activation::relu:
      return value > 0 ? value : 0;
    case Dense::Activation::silu:
      return static_cast<float>(x / (1 + std::exp(-x)));
  }
  return value;
}

std::vector<float> applied(const Dense& dense, const std::vector<float>& x) {
  check(x.size() == dense.cols, "as many values as the product reads");
  std::vector<float> y(dense.rows);
  for (size_t r = 0; r < y.size(); ++r) {
    const float sum = dot(dense.weight.data() + r * dense.cols, x.data(), dense.cols);
    y[r] = activated(dense.activation, sum + (dense.bias.empty() ? 0 : dense.bias[r]));
  }
  return y;
}

void normalise_pooled(const Norm& norm, std::vector<float>& x) {
  if (norm.kind == Norm::Kind::none) return;
  double mean = 0, square = 0;
  if (norm.kind == Norm::Kind::layer) {
    for (const float value : x) mean += double(value);
    mean /= double(x.size());
  }
  for (const float value : x) square += (double(value) - mean) * (double(value) - mean);
  const double scale = 1 / std::sqrt(square / double(x.size()) + double(norm.epsilon));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((double(x[i]) - mean) * scale * double(norm.weight[i]) +
                              (norm.bias.empty() ? 0 : double(norm.bias[i])));
}

}  // namespace

std::vector<float> embedding_of(const Model& model, std::vector<float> pooled) {
  for (const Dense& dense : model.dense) pooled = applied(dense, pooled);
  return pooled;
}

std::vector<float> label_logits(const Model& model, std::vector<float> pooled) {
  check(model.classifier.has_value(), "a model with a classifier");
  const Classifier& classifier = *model.classifier;
  if (classifier.dense) pooled = applied(*classifier.dense, pooled);
  normalise_pooled(classifier.norm, pooled);
  return applied(classifier.output, pooled);
}

float rank_score(std::span<const float> logits) {
  check(logits.size() == 1 || logits.size() == 2, "one label, or two");
  const double against = logits.size() == 2 ? double(logits[1]) : 0;
  return static_cast<float>(1 / (1 + std::exp(against - double(logits[0]))));
}

void expect_ranks(const Model& model) {
  if (!model.classifier)
    throw Error("{} is not a reranker: it has no classifier that scores a query and a document", model.name);
  const std::vector<std::string>& labels = model.classifier->labels;
  const bool yes_no = labels.size() == 2 && labels[0] == "yes" && labels[1] == "no";
  if (model.classifier->output.rows != 1 && !yes_no)
    throw Error("{} is not a reranker: expected one label, or \"yes\" and \"no\", found {} labels", model.name,
                model.classifier->output.rows);
}

std::vector<float> with_length_1(std::span<const double> values) {
  double square = 0;
  for (const double value : values) square += value * value;
  const double length = square > 0 ? std::sqrt(square) : 1;
  std::vector<float> scaled;
  scaled.reserve(values.size());
  for (const double value : values) scaled.push_back(static_cast<float>(value / length));
  return scaled;
}

}  // namespace heddle::model

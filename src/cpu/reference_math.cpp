// Plain loops with sums in f64.
#include "cpu/reference_math.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace heddle::cpu::reference {

using model::Matrix;
using model::Norm;
using model::Vector;

Vector product(const Matrix& weights, const float* x) {
  Vector y(weights.rows), row(weights.cols);
  const size_t bytes = weights.row_bytes();
  for (uint64_t r = 0; r < weights.rows; ++r) {
    quant::decode(weights.format, weights.data.data() + r * bytes, weights.cols, row.data());
    double sum = 0;
    for (uint64_t c = 0; c < weights.cols; ++c) sum += double(row[c]) * x[c];
    y[r] = static_cast<float>(sum);
  }
  return y;
}

void products(const Matrix& weights, const Vector& bias, const std::vector<Vector>& xs, std::vector<Vector>& ys) {
  ys.assign(xs.size(), Vector(weights.rows));
  const size_t bytes = weights.row_bytes();
  constexpr uint64_t slice = 64;
  parallel_for((weights.rows + slice - 1) / slice, 0, [&](size_t index) {
    Vector row(weights.cols);
    for (uint64_t r = index * slice; r < std::min(weights.rows, (index + 1) * slice); ++r) {
      quant::decode(weights.format, weights.data.data() + r * bytes, weights.cols, row.data());
      for (size_t i = 0; i < xs.size(); ++i) {
        double sum = bias.empty() ? 0 : bias[r];
        for (uint64_t c = 0; c < weights.cols; ++c) sum += double(row[c]) * xs[i][c];
        ys[i][r] = static_cast<float>(sum);
      }
    }
  });
}

void add_scaled(Vector& to, const Vector& what, float scale) {
  for (size_t i = 0; i < what.size(); ++i) to[i] += scale * what[i];
}

void normalise(const Norm& norm, float* x, size_t size, const float* weight, const float* bias) {
  if (norm.kind == Norm::Kind::scale) {
    for (size_t i = 0; i < size; ++i) x[i] *= weight[i];
    return;
  }
  double mean = 0, square = 0;
  if (norm.kind == Norm::Kind::layer) {
    for (size_t i = 0; i < size; ++i) mean += x[i];
    mean /= double(size);
  }
  for (size_t i = 0; i < size; ++i) square += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(square / double(size) + norm.epsilon);
  for (size_t i = 0; i < size; ++i) x[i] = static_cast<float>((x[i] - mean) * scale * weight[i] + (bias ? bias[i] : 0));
}

Vector normalised(const Norm& norm, Vector x) {
  if (norm.kind != Norm::Kind::none)
    normalise(norm, x.data(), x.size(), norm.weight.data(), norm.bias.empty() ? nullptr : norm.bias.data());
  return x;
}

double silu(double x) { return x / (1 + std::exp(-x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace heddle::cpu::reference

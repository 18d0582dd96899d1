// Plain loops with sums in f64.
#include "cpu/reference_math.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/parallel.h"
#include "quant/kv_q8.h"

namespace heddle::cpu::reference {

using model::Matrix;
using model::Norm;
using model::Vector;

namespace {

constexpr uint64_t rows_at_once = 4;  // a sum waits for its own last addition: four of them wait side by side

// sums[i] += rows[i] . x over `count` values. The tests of models spend most of their time here. Its callers have whole
// rows, so a sanitizer need not look at every value.
#ifdef __clang__
__attribute__((no_sanitize("address", "undefined")))
#endif
void add_dots(const float* const (&rows)[rows_at_once], const float* x, uint64_t count,
              double (&sums)[rows_at_once]) {
  const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  double of_a = sums[0], of_b = sums[1], of_c = sums[2], of_d = sums[3];
  for (uint64_t i = 0; i < count; ++i) {
    const double value = x[i];
    of_a += a[i] * value;
    of_b += b[i] * value;
    of_c += c[i] * value;
    of_d += d[i] * value;
  }
  sums[0] = of_a;
  sums[1] = of_b;
  sums[2] = of_c;
  sums[3] = of_d;
}

// put(row, x, sum) for rows `first` to `end` of W with each of `xs`; the sums begin with `bias`, if there is one.
template <class Put>
void multiply_rows(const Matrix& weights, const Vector& bias, uint64_t first, uint64_t end,
                   std::span<const float* const> xs, Put put) {
  const uint64_t cols = weights.cols, bytes = weights.row_bytes();
  Vector decoded(rows_at_once * cols);
  const float* rows[rows_at_once];
  for (uint64_t at = first; at < end; at += rows_at_once) {
    const uint64_t some = std::min(rows_at_once, end - at);
    quant::decode(weights.format, weights.data.data() + at * bytes, some * cols, decoded.data());
    for (uint64_t i = 0; i < rows_at_once; ++i) rows[i] = decoded.data() + std::min(i, some - 1) * cols;
    for (size_t x = 0; x < xs.size(); ++x) {
      double sums[rows_at_once] = {};
      for (uint64_t i = 0; i < some && !bias.empty(); ++i) sums[i] = bias[at + i];
      add_dots(rows, xs[x], cols, sums);
      for (uint64_t i = 0; i < some; ++i) put(at + i, x, static_cast<float>(sums[i]));
    }
  }
}

}  // namespace

Vector product(const Matrix& weights, const float* x) {
  Vector y(weights.rows);
  multiply_rows(weights, {}, 0, weights.rows, {&x, 1}, [&](uint64_t r, size_t, float sum) { y[r] = sum; });
  return y;
}

void products(const Matrix& weights, const Vector& bias, const std::vector<Vector>& xs, std::vector<Vector>& ys) {
  ys.assign(xs.size(), Vector(weights.rows));
  std::vector<const float*> starts;
  for (const Vector& x : xs) {
    check(x.size() >= weights.cols, "as many values as W has columns");
    starts.push_back(x.data());
  }
  constexpr uint64_t slice = 64;
  const size_t threads = threads_for(weights.rows * weights.cols * xs.size());
  parallel_for((weights.rows + slice - 1) / slice, threads, [&](size_t index) {
    multiply_rows(weights, bias, index * slice, std::min(weights.rows, (index + 1) * slice), starts,
                  [&](uint64_t r, size_t i, float sum) { ys[i][r] = sum; });
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

void normalise_heads(const Norm& norm, Vector& x, uint32_t head, bool own) {
  if (norm.kind == Norm::Kind::none) return;
  const size_t weights = norm.weight.size(), size = own ? head : weights;
  check(weights == head || weights == x.size(), "a norm over each head or over all");
  for (size_t at = 0; at < x.size(); at += size) {
    const size_t first = own ? at : 0;
    normalise(norm, x.data() + at, size, norm.weight.data() + first,
              norm.bias.empty() ? nullptr : norm.bias.data() + first);
  }
}

void normalise_across(const Norm& norm, std::vector<Vector>& rows, Ranks& ranks) {
  Squares squares;
  squares.begin(rows.size(), norm);
  for (size_t i = 0; i < rows.size(); ++i) {
    double square = 0;
    for (const float value : rows[i]) square += double(value) * value;
    squares.put(i, norm, false, square);
  }
  ranks.sum(squares.all());
  for (size_t i = 0; i < rows.size(); ++i) {
    const double mean = double(squares.of(i, norm, false)) / double(norm.across->size);
    const double scale = 1 / std::sqrt(mean + double(norm.epsilon));
    for (size_t c = 0; c < rows[i].size(); ++c) rows[i][c] = static_cast<float>(rows[i][c] * scale * norm.weight[c]);
  }
}

void rotate(const model::Rope& rope, bool long_text, Vector& x, uint32_t head, uint32_t position, uint32_t first) {
  if (rope.style == model::Rope::Style::none) return;
  const std::vector<double>& radians = long_text && !rope.long_radians.empty() ? rope.long_radians : rope.radians;
  const uint32_t pairs = rope.dimensions / 2;
  for (size_t at = first; at < x.size(); at += head) {
    for (uint32_t i = 0; i < pairs; ++i) {
      const double angle = double(position) * radians[i];
      const double cosine = std::cos(angle) * rope.magnitude, sine = std::sin(angle) * rope.magnitude;
      float& a = x[at + (rope.style == model::Rope::Style::pairs ? 2 * i : i)];
      float& b = x[at + (rope.style == model::Rope::Style::pairs ? 2 * i + 1 : i + pairs)];
      const double before = a;
      a = static_cast<float>(before * cosine - b * sine);
      b = static_cast<float>(before * sine + b * cosine);
    }
  }
}

void softmax(std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value - largest);
  for (double& value : x) value /= sum;
}

namespace {

double mean_square(const Vector& x) {
  double sum = 0;
  for (const float value : x) sum += double(value) * value;
  return sum / double(x.size());
}

}  // namespace

Vector as_long_as(const Vector& like, Vector x) {
  const double scale = std::sqrt(mean_square(like) / std::max(mean_square(x), double(model::altup_min_square)));
  for (float& value : x) value = static_cast<float>(value * scale);
  return x;
}

void as_kept(Vector& x, uint32_t head) {
  int8_t bytes[quant::kv_q8_values];
  for (size_t first = 0; first < x.size(); first += head)
    for (uint32_t i = 0; i < head; i += quant::kv_q8_values) {
      float* group = x.data() + first + i;
      const uint32_t count = std::min(quant::kv_q8_values, head - i);
      quant::decode_kv_q8(quant::encode_kv_q8(group, bytes, count), bytes, group, count);
    }
}

}  // namespace heddle::cpu::reference

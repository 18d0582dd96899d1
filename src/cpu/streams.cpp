// Coefficients are few, and their router is small: plain loops over a row.
#include "cpu/streams.h"

#include <algorithm>
#include <cmath>

#include "cpu/layers.h"

namespace heddle::cpu {
namespace {

double dot(const float* a, const float* b, uint64_t size) {
  double sums[4] = {};
  uint64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (uint64_t j = 0; j < 4; ++j) sums[j] += double(a[i + j]) * double(b[i + j]);
  for (; i < size; ++i) sums[0] += double(a[i]) * double(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// What makes y as long as x.
float length_factor(const float* x, const float* y, uint64_t size) {
  const double least = double(model::altup_min_square) * double(size);
  return static_cast<float>(std::sqrt(dot(x, x, size) / std::max(dot(y, y, size), least)));
}

}  // namespace

Streams::Streams(uint32_t rows, uint32_t width, uint64_t others, const RowForms& forms) : width_(width) {
  if (others == 0) return;
  for (uint64_t i = 0; i < others; ++i) others_.emplace_back(rows, width, forms);
  kept_ = Rows(rows, width, {});
}

void Streams::find_coefficients(const model::Altup& step, const float* x, std::vector<float>& out) const {
  std::vector<float> h(width_), routed(step.streams());
  normalise(step.norm, x, width_, h.data());
  for (uint32_t i = 0; i < step.streams(); ++i)
    routed[i] = static_cast<float>(std::tanh(dot(h.data(), step.router.data() + uint64_t(i) * width_, width_)));
  out.clear();
  for (uint64_t at = 0; at < step.coefficients.size(); at += routed.size())
    out.push_back(static_cast<float>(dot(routed.data(), step.coefficients.data() + at, routed.size())));
}

void Streams::predict(const model::Altup& step, uint64_t row, float* x) {
  std::vector<float> c;
  find_coefficients(step, x, c);
  const uint32_t count = step.streams();
  std::vector<float*> streams{x};
  for (Rows& other : others_) streams.push_back(other.row(row));
  std::vector<float> before(count);
  for (uint32_t i = 0; i < width_; ++i) {
    for (uint32_t s = 0; s < count; ++s) before[s] = streams[s][i];
    for (uint32_t s = 0; s < count; ++s)
      for (uint32_t j = 0; j < count; ++j) streams[s][i] += c[s * count + j] * before[j];
  }
  std::copy_n(x, width_, kept_.row(row));
}

void Streams::correct(const model::Altup& step, uint64_t row, float* x) {
  std::vector<float> c;
  find_coefficients(step, x, c);
  const float* before = kept_.row(row);
  for (uint32_t i = 0; i < width_; ++i) {
    const float change = x[i] - before[i];
    x[i] = before[i] + (1 + c[0]) * change;
    for (size_t s = 0; s < others_.size(); ++s) others_[s].row(row)[i] += (1 + c[s + 1]) * change;
  }
}

void Streams::add(uint64_t row, const float* what) {
  for (Rows& other : others_)
    for (uint32_t i = 0; i < width_; ++i) other.row(row)[i] += what[i];
}

void Streams::begin(uint32_t stream, uint64_t row, const float* x, const float* projected) {
  const float factor = length_factor(x, projected, width_);
  for (uint32_t i = 0; i < width_; ++i) others_[stream].row(row)[i] = projected[i] * factor;
}

void Streams::add_to_mean(uint32_t stream, uint64_t row, const float* x, const float* projected) {
  const float factor = length_factor(x, projected, width_);
  float* sum = kept_.row(row);
  for (uint32_t i = 0; i < width_; ++i) sum[i] = (stream == 0 ? x[i] : sum[i]) + projected[i] * factor;
}

void Streams::finish_mean(uint64_t row, float* x) const {
  for (uint32_t i = 0; i < width_; ++i) x[i] = kept_.row(row)[i] / float(others_.size() + 1);
}

void Streams::finish(uint64_t row, const Isa& isa) {
  for (Rows& other : others_) other.finish(row, isa);
}

}  // namespace heddle::cpu

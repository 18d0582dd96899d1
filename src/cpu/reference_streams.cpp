#include "cpu/reference_streams.h"

#include <cmath>

#include "cpu/reference_math.h"

namespace heddle::cpu {

using namespace model;
using namespace reference;

namespace {

Vector coefficients(const Altup& a, const Vector& x) {
  const Vector h = normalised(a.norm, x);
  const auto dot = [](const float* left, const float* right, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; ++i) sum += double(left[i]) * right[i];
    return sum;
  };
  Vector routed, all;
  for (size_t at = 0; at < a.router.size(); at += h.size())
    routed.push_back(static_cast<float>(std::tanh(dot(h.data(), a.router.data() + at, h.size()))));
  for (size_t at = 0; at < a.coefficients.size(); at += routed.size())
    all.push_back(static_cast<float>(dot(routed.data(), a.coefficients.data() + at, routed.size())));
  return all;
}

}  // namespace

void ReferenceStreams::update(const Altup& a, std::vector<Vector>& x) {
  if (a.step == Altup::Step::begin) others_.assign(a.others, {});
  for (uint32_t s = 0; s < a.projections.count; ++s) {
    std::vector<Vector> projected;
    products(a.projections.expert(s), {}, a.step == Altup::Step::begin ? x : others_[s], projected);
    for (size_t i = 0; i < x.size(); ++i) projected[i] = as_long_as(x[i], std::move(projected[i]));
    others_[s] = std::move(projected);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (a.step == Altup::Step::predict) predict(a, i, x[i]);
    if (a.step == Altup::Step::correct) correct(a, i, x[i]);
    if (a.step != Altup::Step::end) continue;
    for (const std::vector<Vector>& stream : others_) add_scaled(x[i], stream[i], 1);
    for (float& value : x[i]) value /= float(a.streams());
  }
  if (a.step == Altup::Step::predict) predicted_ = x;
}

void ReferenceStreams::add(size_t row, const Vector& result) {
  for (std::vector<Vector>& stream : others_) add_scaled(stream[row], result, 1);
}

void ReferenceStreams::predict(const Altup& a, size_t row, Vector& x) {
  const Vector c = coefficients(a, x);
  std::vector<Vector> before{x};
  for (const std::vector<Vector>& stream : others_) before.push_back(stream[row]);
  for (uint32_t i = 0; i < a.streams(); ++i)
    for (uint32_t j = 0; j < a.streams(); ++j)
      add_scaled(i == 0 ? x : others_[i - 1][row], before[j], c[i * a.streams() + j]);
}

void ReferenceStreams::correct(const Altup& a, size_t row, Vector& x) {
  const Vector c = coefficients(a, x);
  Vector change = x;
  add_scaled(change, predicted_[row], -1);
  x = predicted_[row];
  add_scaled(x, change, 1 + c[0]);
  for (uint32_t i = 0; i < a.others; ++i) add_scaled(others_[i][row], change, 1 + c[i + 1]);
}

}  // namespace heddle::cpu

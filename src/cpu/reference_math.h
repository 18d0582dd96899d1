// The arithmetic that the files of the reference backend share.
#pragma once
#include <vector>

#include "model/backend.h"

namespace heddle::cpu::reference {

// y = W x for one x.
model::Vector product(const model::Matrix& weights, const float* x);
// The same for several x, so that each row is decoded once. y is (rows of x, rows of W).
void products(const model::Matrix& weights, const model::Vector& bias, const std::vector<model::Vector>& xs,
              std::vector<model::Vector>& ys);
void add_scaled(model::Vector& to, const model::Vector& what, float scale);
// bias: null where there is none
void normalise(const model::Norm& norm, float* x, size_t size, const float* weight, const float* bias);
model::Vector normalised(const model::Norm& norm, model::Vector x);
double silu(double x);
double sigmoid(double x);

}  // namespace heddle::cpu::reference

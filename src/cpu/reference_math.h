// The arithmetic that the files of the reference backend share.
#pragma once
#include <vector>

#include "cpu/ranks.h"
#include "model/backend.h"

namespace heddle::cpu::reference {

// Threads for parallel_for: one where so few products take less time than to start another, otherwise all.
inline size_t threads_for(uint64_t products) { return products < 1u << 16 ? 1 : 0; }
// y = W x for one x.
model::Vector product(const model::Matrix& weights, const float* x);
// The same for several x, so that each row is decoded once. y is (rows of x, rows of W).
void products(const model::Matrix& weights, const model::Vector& bias, const std::vector<model::Vector>& xs,
              std::vector<model::Vector>& ys);
void add_scaled(model::Vector& to, const model::Vector& what, float scale);
// bias: null where there is none
void normalise(const model::Norm& norm, float* x, size_t size, const float* weight, const float* bias);
model::Vector normalised(const model::Norm& norm, model::Vector x);
// Over each head, or over all where the weight is that long; `own`: over each head all the same.
void normalise_heads(const model::Norm& norm, model::Vector& x, uint32_t head, bool own);
// Of all rows, an rms norm of which each rank has some values.
void normalise_across(const model::Norm& norm, std::vector<model::Vector>& rows, Ranks& ranks);
// Of each head the values from `first` on.
void rotate(const model::Rope& rope, bool long_text, model::Vector& x, uint32_t head, uint32_t position,
            uint32_t first = 0);
void softmax(std::vector<double>& x);
// x, made as long as `like`.
model::Vector as_long_as(const model::Vector& like, model::Vector x);
// What a cache in q8 gives back of the keys or values of heads.
void as_kept(model::Vector& x, uint32_t head);
double silu(double x);
double sigmoid(double x);

}  // namespace heddle::cpu::reference

// A product with experts: inputs and the f64 reference, and its timing.
#pragma once
#include "kernels/product/product.h"
#include "proof/bench.h"

namespace heddle::proof {

struct ExpertShape {
  uint32_t rows, cols;    // of an expert's matrix
  uint32_t inputs, used;  // rows of the batch, and the experts of each
  uint32_t blocks = 2;
  bool one_for_all = false;  // every vector has the same expert
};
// Launches the product and compares.
void run_expert_product(const kernels::Product& spec, const ExpertShape& shape, Machine& m, Random& random,
                        Check& check);

void add_expert_product_benches(std::vector<Bench>& all);

}  // namespace heddle::proof

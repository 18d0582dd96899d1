// Feed-forwards and mixtures of experts of the reference backend.
#pragma once
#include <vector>

#include "model/backend.h"

namespace heddle::cpu::reference {

// What the last product of a feed-forward reads. `token_inputs`: of each row, where it has some.
std::vector<model::Vector> gated(const model::FeedForward& f, const std::vector<model::Vector>& xs,
                                 const std::vector<model::Vector>& token_inputs = {});
// Of all rows, before the norms of the results.
struct MixtureResult {
  std::vector<model::Vector> experts;  // their weighted sum
  std::vector<model::Vector> shared;   // empty where there is no shared expert
  std::vector<float> weights;          // of the shared expert
};
// `inputs` are those of the mixture, xs what its norm leaves of them.
MixtureResult mixture(const model::Mixture& m, const std::vector<model::Vector>& inputs,
                      const std::vector<model::Vector>& xs);

}  // namespace heddle::cpu::reference

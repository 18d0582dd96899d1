// Feed-forwards and mixtures of experts of the reference backend.
#pragma once
#include <vector>

#include "model/backend.h"

namespace heddle::cpu::reference {

// What the last product of a feed-forward reads. `token_inputs`: of each row, where it has some.
std::vector<model::Vector> gated(const model::FeedForward& f, const std::vector<model::Vector>& xs,
                                 const std::vector<model::Vector>& token_inputs = {});
// Of one row. `input` is that of the mixture, x what its norm leaves.
model::Vector mixture(const model::Mixture& m, const model::Vector& input, const model::Vector& x);

}  // namespace heddle::cpu::reference

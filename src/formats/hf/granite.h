// What Granite's classes share: sizes, multipliers, and mixtures whose gate and up are one matrix in the file.
#pragma once
#include "formats/hf/description.h"

namespace heddle::formats::hf {

Sizes granite_sizes(Config& config);
// attention.scale, embedding_scale, residual_scale and logit_scale.
void put_granite_scales(Description& to, Config& config);
// Without experts, the one that sees every token is a feed-forward.
void add_granite_mixture(Layer& layer, const Sizes& sizes, uint64_t experts, uint64_t shared);

}  // namespace heddle::formats::hf

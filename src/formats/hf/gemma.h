// What the classes of Gemma share.
#pragma once
#include "formats/hf/description.h"

namespace heddle::formats::hf {

Sizes gemma_sizes(Config& config, const Sizes& defaults);

// Layers with a window are rotated by another base. New spelling: an object for each kind of layer; old: two numbers,
// and rope_scaling for the layers without a window.
void put_gemma3_rope(Description& to, Config& config, const Sizes& sizes);

}  // namespace heddle::formats::hf

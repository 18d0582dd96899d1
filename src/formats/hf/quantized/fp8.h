// Weights of 8-bit floats (e4m3 or e5m2) with scales.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "formats/hf/quantized/packed_files.h"

namespace heddle::formats::hf {

struct Fp8Block {
  uint64_t rows = 0, cols = 0;
};

// All e4m3 and e5m2 tensors of the folder with the scale beside each (weight_scale_inv, or weight_scale): one, one per
// row, one per group of columns, or one per `block`. w = value * scale. Scales of activations and of the KV cache,
// which heddle does not round, are dropped. Returns "FP8, block 128 x 128".
std::string take_fp8(PackedFiles& files, std::optional<Fp8Block> block);

}  // namespace heddle::formats::hf

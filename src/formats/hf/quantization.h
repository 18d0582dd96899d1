// quantization_config of config.json: the packed tensors of a quantised folder -> tensors that can be bound.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/checkpoint.h"

namespace heddle::formats::hf {

// Replaces the tensors that hold one weight (its quants, scales, zero points) by that weight, under the name that it
// has in a model that is not quantised. Nothing is decoded before the tensor is asked for its data. Returns how they
// are quantised, "AWQ 4 bit, group 128", or "" where heddle has the format itself or config.json does not name one.
// What is not understood is an Error.
std::string unpack_quantized(const Json& config, std::vector<Tensor>& tensors, std::vector<Unreadable>& unreadable,
                             const std::string& source);

}  // namespace heddle::formats::hf

// The plain backend: every weight decoded, every product in f32 with sums in f64, the KV cache in f32 (with q8, of the
// values that q8 keeps). Slow and obvious; all others are held to it.
#pragma once
#include <memory>

#include "model/backend.h"

namespace heddle::cpu {

// The model must outlive it.
std::unique_ptr<model::Backend> make_reference(const model::Model& model, const model::Limits& limits);

}  // namespace heddle::cpu

// Sampling as a device can do it: what Sampler would pick, as fields of model::Picking.
#pragma once
#include <optional>
#include <span>

#include "engine/sampling/sampler.h"
#include "model/backend.h"

namespace heddle::engine {

// None where the chain has a step, or an order of steps, that only the host's sampler knows. `text`: all tokens so far,
// the prompt first; those after it were picked.
std::optional<model::Picking> device_picking(const Sampler& sampler, std::span<const uint32_t> text, uint32_t prompt);

}  // namespace heddle::engine

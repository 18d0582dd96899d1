// Sampling on a device: what Sampler would pick, as a model::Picking.
#pragma once
#include <optional>
#include <span>

#include "engine/sampling/sampler.h"
#include "model/backend.h"

namespace heddle::engine {

// Unset if the chain has a step, or an order of steps, that only the host's sampler has. `text`: all tokens so far, of
// which the first `prompt` are the prompt.
std::optional<model::Picking> device_picking(const Sampler& sampler, std::span<const uint32_t> text, uint32_t prompt);

}  // namespace heddle::engine

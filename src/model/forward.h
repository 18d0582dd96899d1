// The forward pass in verbs: the same for every architecture and every device.
#pragma once
#include "model/backend.h"

namespace heddle::model {

// Runs the batch; result() of the backend then has the logits of its outputs, states() the states.
void forward(const Model& model, Backend& backend, const Batch& batch);

}  // namespace heddle::model

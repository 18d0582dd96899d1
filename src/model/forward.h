// The forward pass in verbs: the same for every architecture and every device.
#pragma once
#include "model/backend.h"

namespace heddle::model {

// Begins the batch and calls every verb on it. Backend::result() waits for what it gives.
void forward(const Model& model, Backend& backend, const Batch& batch);

}  // namespace heddle::model

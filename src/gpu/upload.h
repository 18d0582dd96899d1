// From the file to tiles on the device: through pinned memory while the file is read, packed by a kernel there.
#pragma once
#include <functional>

#include "cuda/stream.h"
#include "gpu/library.h"
#include "gpu/weights.h"

namespace heddle::gpu {

using Progress = std::function<void(uint64_t done, uint64_t all)>;  // bytes

// Everything the model has; buffers are made here. The host's descriptions of parts are gone afterwards.
void upload(DeviceModel& model, Library& library, cuda::Stream& stream, const Progress& progress);

// Beside the weights, while they are uploaded.
uint64_t upload_bytes(DeviceModel& model);

}  // namespace heddle::gpu

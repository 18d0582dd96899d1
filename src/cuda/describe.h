// What device.cpp tells the rest of this room.
#pragma once
#include "cuda/device.h"
#include "cuda/driver.h"

namespace heddle::cuda {

int device_count(const Driver& api);  // at least 1; throws NoDevice
DeviceInfo describe(const Driver& api, int ordinal);

}  // namespace heddle::cuda

// heddle selftest MODEL: a device against the reference on a whole model.
#pragma once
#include <iosfwd>
#include <string>

#include "main/device/device_options.h"

namespace heddle {

struct ModelSelftestOptions {
  std::string model;             // "weft": the program's own
  std::string sweep = "normal";  // quick, normal, full
  DeviceOptions device;
};
// A table of checks. False if one failed.
bool selftest_model(const ModelSelftestOptions& options, std::ostream& out);

}  // namespace heddle

// heddle tune: the fastest shapes of a model's kernels on this GPU, found by timing and kept.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "main/device/device_options.h"

namespace heddle {

struct TuneOptions {
  std::string model;
  std::vector<uint32_t> batches = {1};  // rows of the steps to tune for
  DeviceOptions device;
};
void describe_tune(CLI::App& program, std::ostream& out);
// Throws an Error where there is no GPU that can.
void tune(const TuneOptions& options, std::ostream& out);

}  // namespace heddle

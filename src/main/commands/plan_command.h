// heddle plan: what a model will take on each device, before it is loaded.
#pragma once
#include <iosfwd>
#include <string>

#include "main/device/running_model.h"

namespace CLI {
class App;
}

namespace heddle {

struct PlanOptions {
  std::string model;
  uint32_t rows = 512;  // of a batch
  bool json = false;
  DeviceOptions device;
};
void describe_plan(CLI::App& program, std::ostream& out, int& status);
// False if the model fits on no device.
bool plan(const PlanOptions& options, std::ostream& out);

}  // namespace heddle

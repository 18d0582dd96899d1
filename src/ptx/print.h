// Kernel -> PTX text. Register and label names are made here, so none can clash.
#pragma once
#include "ptx/target.h"

namespace heddle::ptx {

struct PrintOptions {
  bool lines = true;  // .loc lines back to the C++ source
};
// ASCII only, with the lowest .version that the target and the instructions need.
std::string print(const Kernel& kernel, const Target& target, PrintOptions options = {});

}  // namespace heddle::ptx

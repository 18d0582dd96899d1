// What a kernel must satisfy before it is printed or run.
#pragma once
#include "base/error.h"
#include "ptx/target.h"

namespace heddle::ptx {

// A kernel that a target could run, but for the shared memory of its blocks.
struct TooMuchShared : Error {
  explicit TooMuchShared(const std::string& message) : Error("{}", message) {}
};

// Throws an Error that names the kernel, the source line, the instruction and the reason.
void verify(const Kernel& kernel, const Target& target);
// All but what depends on a target.
void verify(const Kernel& kernel);

}  // namespace heddle::ptx

// A kernel lowered for the interpreter: a straight list of steps with jumps, operands resolved to register rows.
#pragma once
#include "ptx/machine/machine.h"

namespace heddle::ptx::machine {

struct Program {
  explicit Program(const Kernel& kernel);
  Program(const Program&) = delete;

  const Kernel& kernel;
  std::vector<Step> steps;
  std::vector<uint8_t> constants;                      // rows of immediates
  std::vector<std::pair<Special, uint32_t>> specials;  // special registers the kernel reads, and their rows
  uint32_t file_bytes = 0;                             // of a warp's register file
  std::vector<uint32_t> pool;                          // rows of all operands; the steps point into it
};

}  // namespace heddle::ptx::machine

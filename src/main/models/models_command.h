// heddle models: what is on this machine, and whether it runs here.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "model/backend.h"

namespace heddle {

// What is free: of the CPU, and of each GPU that a model may run on.
struct MachineMemory {
  uint64_t cpu = 0;  // bytes; 0: unknown
  std::vector<std::pair<cuda::DeviceInfo, uint64_t>> gpus;
};
MachineMemory machine_memory();

// Why a model does not fit with any context, in a few words; empty: it fits on a device, or on a GPU and the CPU
// together.
std::string memory_problem(const model::Model& model, const MachineMemory& memory);

}  // namespace heddle

// Which GPUs there are, without using one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cuda {

struct Driver;

struct DeviceInfo {
  uint32_t ordinal = 0;  // the driver's number, as CUDA_VISIBLE_DEVICES leaves it
  std::string name;      // "NVIDIA H200"
  uint32_t sm = 0;       // 90 for compute capability 9.0
  uint32_t own_sm = 0;   // the same of the hardware, where it is treated as another GPU
  bool specific = true;  // kernels may use what this architecture alone has (the "a" targets)
  uint32_t sms = 0;      // multiprocessors
  uint64_t memory = 0;   // bytes
  uint64_t l2_bytes = 0;
  uint32_t shared_per_block = 0;        // bytes; the default limit of a kernel
  uint32_t shared_per_block_optin = 0;  // bytes; the limit that a kernel can ask for
  uint32_t shared_per_sm = 0;           // bytes
  uint32_t registers_per_sm = 0;        // of 32 bits
  uint32_t threads_per_sm = 0;
  uint32_t blocks_per_sm = 0;
  uint32_t clock_khz = 0;         // of the multiprocessors; 0 if the driver does not say
  uint32_t memory_clock_khz = 0;  // 0: unknown
  uint32_t bus_width = 0;         // bits
  bool integrated = false;        // memory is shared with the host
  bool ecc = false;
  std::string pci;   // "0000:1b:00.0"
  std::string uuid;  // "GPU-8f1c2f5e-...", as nvidia-smi prints it

  // Bytes per second that the memory could give at its clock (two transfers per clock); 0 if the clock is not known.
  double memory_bytes_per_second() const { return 2e3 * memory_clock_khz * (bus_width / 8); }
};

// From now on every GPU is described, and so used, as one of this target ("sm_86"): text for it, its limits, and
// nothing that it lacks; empty: as what it is. Of a target newer than the GPU the limits hold, which needs a GPU that
// has all that kernels for newer ones use (9.0). Not for threads that already use a GPU. Throws an Error for a name
// that is not among the known ones; describe() throws one for a GPU that cannot stand in for the target.
void treat_gpus_as(const std::string& target);

// In the driver's order, never empty. Throws NoDriver or NoDevice.
std::vector<DeviceInfo> devices();

int device_count(const Driver& api);  // at least 1; throws NoDevice
DeviceInfo describe(const Driver& api, int ordinal);

// The CUDA version that the driver speaks, "13.0". Throws NoDriver.
std::string driver_version();

}  // namespace heddle::cuda

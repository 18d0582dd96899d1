// GPUs with less than an H200 has.
#pragma once
#include <vector>

#include "kernels/spec/gpu_limits.h"

namespace heddle::kernels {

struct SmallGpu {
  const char* target;
  GpuLimits limits;
};
inline std::vector<SmallGpu> small_gpus() {
  return {{"sm_75", {64 * 1024, 64 * 1024, 1024, false, false}},
          {"sm_80", {163 * 1024, 164 * 1024, 2048, false}},
          {"sm_86", {99 * 1024, 100 * 1024, 1536, false}},
          {"sm_120", {99 * 1024, 100 * 1024, 1536, true}}};
}

}  // namespace heddle::kernels

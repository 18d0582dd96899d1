// Kernels on the device: a spec is built, verified, printed for this GPU, assembled (or taken from the cache) and kept.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/compile.h"
#include "cuda/plan.h"
#include "gpu/gpu.h"
#include "kernels/spec/field.h"
#include "kernels/spec/gpu_limits.h"
#include "ptx/target.h"

namespace heddle::gpu {

// The best target that runs on this GPU, the architecture's own where there is one, with the GPU's limit of shared
// memory. Throws an Error for a GPU older than all of them.
ptx::Target target_for(const cuda::DeviceInfo& device);
// What the shapes of kernels depend on.
kernels::GpuLimits limits_of(const cuda::DeviceInfo& device);

// Builds the kernel for the target, verifies and prints it.
BuiltKernel build_kernel(const kernels::AnySpec& spec, const ptx::Target& target);

// A kernel ready to be launched.
struct Loaded {
  cuda::Function function;
  cuda::Dim3 block, cluster;
  uint32_t shared_bytes = 0;  // of dynamic shared memory for every launch; a launch may add to it
  bool dependent = false;     // waits for the kernel before it by itself, so it may start early

  cuda::Launch launch(ptx::Grid grid, uint32_t dynamic_shared, const void* args, size_t args_bytes) const;
};

// Any thread may use it.
class Library {
 public:
  // `cache` may be null, and must outlive the library.
  Library(cuda::Context context, cuda::CubinCache* cache, BuildKernel build = {});

  // Assembles the kernels that are not loaded yet, on all cores.
  void load(const std::vector<kernels::AnySpec>& specs);
  // Loads the kernel first if it is not loaded.
  const Loaded& get(const kernels::AnySpec& spec);
  template <class Spec>
  const Loaded& get(const Spec& spec) {
    // Found without a copy of the spec: a batch looks up several hundred.
    const Loaded* loaded = find(kernels::SpecKey(spec));
    return loaded ? *loaded : get(kernels::AnySpec(spec));
  }

  const cuda::Context& context() const { return context_; }
  const ptx::Target& target() const { return target_; }

 private:
  Loaded prepare(const ptx::Kernel& kernel, const cuda::Module& module) const;
  const Loaded* find(const kernels::SpecKey& key);

  cuda::Context context_;
  cuda::CubinCache* cache_;
  const BuildKernel build_;
  const ptx::Target target_;
  std::mutex mutex_;
  std::map<kernels::AnySpec, Loaded, kernels::SpecOrder> loaded_;  // nodes stay where they are
};

}  // namespace heddle::gpu

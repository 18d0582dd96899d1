// Kernels of all tests of a process: the models of tests share most of them, and to build and to lower them takes a
// fourth of the time of interpreted plans.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "gpu/library.h"
#include "ptx/interpret.h"

namespace heddle::gpu {

// Any thread may use it.
class KeptKernels {
 public:
  // For Options::build_kernel.
  BuiltKernel build(const kernels::AnySpec& spec, const ptx::Target& target) {
    {
      std::lock_guard lock(mutex_);
      const auto& of_target = built_[{target.name, target.max_shared_bytes}];
      if (const auto found = of_target.find(spec.key()); found != of_target.end()) return found->second;
    }
    const BuiltKernel built = build_kernel(spec, target);
    std::lock_guard lock(mutex_);
    return built_[{target.name, target.max_shared_bytes}].try_emplace(spec, built).first->second;
  }
  // The kernel that was built for this text.
  const ptx::Lowered& lowered(const std::string& text) {
    std::lock_guard lock(mutex_);
    if (const auto found = lowered_.find(text); found != lowered_.end()) return found->second;
    for (const auto& [target, kernels] : built_)
      for (const auto& [spec, built] : kernels)
        if (built.text == text) return lowered_.try_emplace(text, *built.kernel).first->second;
    throw Error("a kernel is launched that was not built here");
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, uint32_t>, std::map<kernels::AnySpec, BuiltKernel, kernels::SpecOrder>> built_;
  std::unordered_map<std::string, ptx::Lowered> lowered_;  // by text; nodes stay where they are
};

inline KeptKernels& kept_kernels() {
  static KeptKernels kept;
  return kept;
}

}  // namespace heddle::gpu

// A GPU whose kernels are interpreted: memory is the interpreter's, a launch runs the kernel that the library built for
// its text, and launches that overlap are held to the rules of ptx/launch_chain.h. It has few SMs, so that grids are
// small.
#pragma once
#include <mutex>
#include <unordered_map>

#include "gpu/gpu.h"
#include "ptx/launch_chain.h"
#include "tests/gpu/fake_gpu.h"

namespace heddle::gpu {

class InterpretedGpu : public FakeGpu {
 protected:
  void SetUp() override {
    FakeGpu::SetUp();
    control().sms = 2;
    control().allocate = [this](size_t bytes) { return memory_.alloc<uint8_t>(bytes).address; };
    control().give_back = [this](uint64_t address) { memory_.free(address); };
    control().on_launch = [this](const fake::LaunchRecord& launch) { interpret(launch); };
    control().on_transfer = [this] { chain_.join(); };
  }
  // For make_gpu: kernels are built when they are launched, and kept for that.
  Options interpreted(Options options = {}) {
    options.preload = false;
    options.on_kernel = [this](const ptx::Kernel& kernel, const std::string& text) {
      std::lock_guard lock(mutex_);
      kernels_.try_emplace(text, kernel);
    };
    return options;
  }

  uint64_t lane_instructions_ = 0;  // so far

 private:
  void interpret(const fake::LaunchRecord& launch) {
    const ptx::Lowered& lowered = kernels_.at(*launch.text);
    const ptx::Kernel& kernel = lowered.kernel();
    const uint32_t known = kernel.shared_at_launch() ? ptx::dynamic_shared_offset(kernel) : 0;
    // whatever shared memory holds does not depend on the plan: races in it are the kernels' tests'
    const ptx::InterpretOptions options{.dynamic_shared_bytes = launch.shared - known, .races = false};
    const auto stats = chain_.launch(lowered, {launch.grid[0], launch.grid[1], launch.grid[2]}, launch.args.data(),
                                     launch.args.size(), memory_, launch.overlap, options);
    lane_instructions_ += stats.lane_instructions;
  }

  ptx::Memory memory_;
  ptx::LaunchChain chain_;
  std::mutex mutex_;
  std::unordered_map<std::string, ptx::Lowered> kernels_;  // by text
};

}  // namespace heddle::gpu

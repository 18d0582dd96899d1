// Records launches: the kernel of a spec is loaded, and appended to a plan with its arguments.
#pragma once
#include <utility>

#include "cuda/plan.h"
#include "gpu/library.h"

namespace heddle::gpu {

// What a trace says of a step.
struct LaunchNote {
  std::string kernel;  // "product"
  std::string phase;   // "qkv"
  int layer;           // -1: outside the layers
  uint64_t bytes;      // of weights and KV cache that it reads, which are nearly all of its traffic
};

class Recorder {
 public:
  // `chained`: every kernel waits by itself for the one before it, and so may start early.
  Recorder(Library& library, bool chained)
      : library_(library), limits_(limits_of(library.context().info())), chained_(chained) {}

  void begin() {
    plan = {};
    notes.clear();
  }
  void set_phase(const std::string& phase) { phase_ = phase; }
  void set_layer(int layer) { layer_ = layer; }

  template <class Spec>
  void launch(Spec spec, const typename Spec::Args& args, uint64_t bytes = 0) {
    if constexpr (requires { spec.chained; }) spec.chained = chained_;
    if (wanted) {
      wanted->emplace_back(spec);
      return;
    }
    const Loaded& kernel = library_.get(spec);
    notes.push_back({std::string(Spec::name), phase_, layer_, bytes});
    cuda::Launch launch = kernel.launch(spec.grid(args), 0, &args, sizeof args);
    if (std::exchange(next_alone_, false)) launch.after_previous_starts = false;
    plan.launch(std::move(launch));
  }
  // Work that is no kernel of ours.
  void call(const std::string& name, cuda::Plan::Work work) {
    if (wanted) return;
    notes.push_back({name, phase_, layer_, 0});
    plan.call(std::move(work));
  }
  void fill(uint64_t address, uint8_t value, uint64_t bytes) {
    if (wanted) return;
    notes.push_back({"fill", phase_, layer_, 0});
    plan.fill(address, value, bytes);
  }
  // The next kernel starts when all work of the stream before it is done.
  void start_next_alone() { next_alone_ = true; }

  const cuda::DeviceInfo& device() const { return library_.context().info(); }
  uint32_t sms() const { return device().sms; }
  const kernels::GpuLimits& limits() const { return limits_; }
  bool chained() const { return chained_; }

  cuda::Plan plan;
  std::vector<LaunchNote> notes;  // one per step of the plan
  // If set, nothing is recorded: the kernels that a plan would need are listed here.
  std::vector<kernels::AnySpec>* wanted = nullptr;

 private:
  Library& library_;
  const kernels::GpuLimits limits_;
  const bool chained_;
  std::string phase_;
  int layer_ = -1;
  bool next_alone_ = false;
};

}  // namespace heddle::gpu

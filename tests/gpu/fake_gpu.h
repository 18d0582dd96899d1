// The fixture of tests that run models on the fake driver, where kernels compute nothing.
#pragma once
#include <algorithm>
#include <cstring>

#include "gpu/gpu.h"
#include "tests/cuda/fake_test.h"
#include "tests/gpu/kept_kernels.h"

namespace heddle::gpu {

using Calls = std::vector<std::string>;

template <class Args>
Args args_of(const fake::LaunchRecord& launch) {
  Args args;
  EXPECT_EQ(launch.args.size(), sizeof args) << launch.kernel;
  std::memcpy(&args, launch.args.data(), sizeof args);
  return args;
}

class FakeGpu : public cuda::Fake {
 protected:
  void SetUp() override {
    Fake::SetUp();
    use_driver(11080);  // a newer one would ask what arguments real kernels have
    setenv("HEDDLE_CACHE_DIR", "off", 1);
    control().free_bytes = size_t(4) << 30;
  }
  void TearDown() override {
    Fake::TearDown();
    unsetenv("HEDDLE_CACHE_DIR");
  }

  // The backend, with kernels that the tests before have built.
  static std::unique_ptr<model::Backend> make_gpu(const model::Model& model, const model::Limits& limits,
                                                  Options options = {}) {
    if (!options.build_kernel)
      options.build_kernel = [](const auto& spec, const auto& target) { return kept_kernels().build(spec, target); };
    return gpu::make_gpu(model, limits, options);
  }

  static bool is_allocation(const std::string& call) { return call == "cuMemAlloc_v2" || call == "cuMemHostAlloc"; }
  static bool is_work(const std::string& call) { return call == "cuLaunchKernelEx" || call == "cuGraphLaunch"; }
  static bool is_compiling(const std::string& call) { return call == "cuLinkComplete" || call == "cuModuleLoadData"; }
  // The driver's calls after the first `from`, without those that make the context current.
  Calls calls_since(size_t from) {
    std::lock_guard lock(control().mutex);
    Calls calls(control().calls.begin() + long(from), control().calls.end());
    std::erase(calls, "cuCtxSetCurrent");
    return calls;
  }
  size_t calls() {
    std::lock_guard lock(control().mutex);
    return control().calls.size();
  }
  // The kernels of all launches after the first `from`.
  Calls kernels_since(size_t from) {
    std::lock_guard lock(control().mutex);
    Calls names;
    for (size_t i = from; i < control().launches.size(); ++i) names.push_back(control().launches[i].kernel);
    return names;
  }
  size_t launches() { return kernels_since(0).size(); }
  // The launches of a kernel among those after the first `from`.
  std::vector<fake::LaunchRecord> launched(const std::string& kernel, size_t from) {
    std::lock_guard lock(control().mutex);
    std::vector<fake::LaunchRecord> all;
    for (size_t i = from; i < control().launches.size(); ++i)
      if (control().launches[i].kernel == kernel) all.push_back(control().launches[i]);
    return all;
  }
};

}  // namespace heddle::gpu

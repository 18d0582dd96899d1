// Kernels on the device: a spec is built, verified, printed for this GPU, assembled (or taken from the cache) and kept.
#pragma once
#include <any>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <typeindex>
#include <vector>

#include "cuda/compile.h"
#include "cuda/launch.h"
#include "kernels/spec/field.h"
#include "ptx/target.h"

namespace heddle::gpu {

// The best target whose code runs on a GPU of this compute capability (90 for 9.0): the architecture's own where there
// is one. Throws an Error for a GPU older than all of them.
const ptx::Target& target_for(uint32_t sm);

// A kernel ready to be launched.
struct Loaded {
  cuda::Function function;
  cuda::Dim3 block, cluster;
  uint32_t shared_bytes = 0;  // to ask for at launch, before what the launch adds
  bool dependent = false;     // waits for the kernel before it by itself, so it may start early

  cuda::Launch launch(ptx::Grid grid, uint32_t dynamic_shared, const void* args, size_t args_bytes) const;
};

// A spec by its name and fields, and how to build it.
struct Wanted {
  std::string key;
  std::function<ptx::Kernel()> build;
};
template <class Spec>
Wanted want(const Spec& spec) {
  return {std::string(Spec::name) + " " + kernels::field_text(spec), [spec] { return spec.build(); }};
}

// Any thread may ask.
class Library {
 public:
  // `cache` may be null, and must outlive the library.
  Library(cuda::Context context, cuda::Cache* cache);

  // Assembles what is not there yet, on all cores.
  void load(const std::vector<Wanted>& all);
  // Loads it alone if it is not there.
  const Loaded& get(const Wanted& wanted);
  template <class Spec>
  const Loaded& get(const Spec& spec) {
    // a batch asks some hundred times, and its name with all fields would take longer to write than to launch
    std::unique_lock lock(mutex_);
    auto& known = by_spec_[typeid(Spec)];
    if (!known.has_value()) known = std::map<Spec, const Loaded*>();
    const Loaded*& found = std::any_cast<std::map<Spec, const Loaded*>&>(known)[spec];
    if (found) return *found;
    lock.unlock();
    const Loaded& loaded = get(want(spec));
    lock.lock();
    return *(found = &loaded);
  }

  const cuda::Context& context() const { return context_; }
  const ptx::Target& target() const { return target_; }

 private:
  Loaded prepare(const ptx::Kernel& kernel, const cuda::Module& module) const;
  const Loaded* find(const std::string& key);

  cuda::Context context_;
  cuda::Cache* cache_;
  const ptx::Target& target_;
  std::mutex mutex_;
  std::map<std::string, Loaded> loaded_;         // nodes stay where they are
  std::map<std::type_index, std::any> by_spec_;  // of each type: std::map<Spec, const Loaded*>
};

}  // namespace heddle::gpu

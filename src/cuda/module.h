// Loaded code: a module holds the code of one PTX text, a function is one kernel in it.
#pragma once
#include <cstddef>
#include <span>

#include "cuda/context.h"

namespace heddle::cuda {

struct LoadedModule;
struct LoadedFunction;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
  bool operator==(const Dim3&) const = default;
};

// Copies are the same kernel; each keeps the module loaded.
class Function {
 public:
  Function() = default;  // names no kernel
  explicit operator bool() const { return function_ != nullptr; }

  const std::string& name() const;
  // Bytes of arguments that a launch must pass. Drivers before CUDA 12.4 cannot say: then the size given to
  // Module::function, and 0 if none was.
  size_t args_bytes() const;
  bool args_known() const;  // false: the driver cannot say, and no size was given

  uint32_t registers() const;     // per thread
  uint32_t local_bytes() const;   // per thread: the stack and what was spilled
  uint32_t shared_bytes() const;  // static, per block
  uint32_t max_threads() const;   // per block

  // Raises the limit of dynamic shared memory for launches: needed beyond 48 KiB less the static part.
  void set_max_dynamic_shared(uint32_t bytes);
  uint32_t max_dynamic_shared() const;
  // Allows clusters of more than 8 blocks, where the GPU has them.
  void allow_large_clusters();
  // The share of an SM's L1 that should be shared memory, 0 to 100 percent: a hint.
  void prefer_shared(uint32_t percent);
  // How many blocks an SM holds at once.
  uint32_t blocks_per_sm(uint32_t threads, uint32_t dynamic_shared = 0) const;

  void* handle() const;
  ContextState& state() const;

 private:
  friend class Module;
  explicit Function(std::shared_ptr<LoadedFunction> function) : function_(std::move(function)) {}
  LoadedFunction& get() const;
  std::shared_ptr<LoadedFunction> function_;
};

// Copies are the same module. It is unloaded with the last copy of it and of its functions.
class Module {
 public:
  Module() = default;  // holds nothing
  // From a cubin for this GPU. `name` is for messages.
  Module(const Context& context, std::span<const std::byte> cubin, const std::string& name, std::string log = {});

  // The kernel of this name. Throws if there is none, or if `args_bytes` is given and is not what the kernel takes.
  Function function(const std::string& name, size_t args_bytes = 0) const;

  // The assembler's log (registers, spills); empty if the cubin came from the cache.
  const std::string& log() const;
  const std::string& name() const;

 private:
  std::shared_ptr<LoadedModule> module_;
};

}  // namespace heddle::cuda

// Loaded code: a module holds what one text was assembled to, a function is one kernel in it.
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
  Function() = default;  // none
  explicit operator bool() const { return function_ != nullptr; }

  const std::string& name() const;
  // What a launch must pass, in bytes. Drivers before CUDA 12.4 do not tell: then what was expected when it was taken
  // from the module, and 0 if nothing was.
  size_t args_bytes() const;
  bool args_known() const;  // false: the driver does not tell, and nothing was expected

  uint32_t registers() const;     // per thread
  uint32_t local_bytes() const;   // per thread: the stack and what was spilled
  uint32_t shared_bytes() const;  // static, per block
  uint32_t max_threads() const;   // per block

  // Lets launches ask for up to so many bytes of dynamic shared memory: needed beyond 48 KiB less the static part.
  void set_max_dynamic_shared(uint32_t bytes);
  uint32_t max_dynamic_shared() const;
  // Clusters of more than 8 blocks, where the GPU has them.
  void allow_large_clusters();
  // How much of an SM's joint memory should be shared memory rather than L1: 0 to 100 percent, a wish.
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
  Module() = default;  // none
  // From a cubin for this GPU. `name` is for messages.
  Module(const Context& context, std::span<const std::byte> cubin, const std::string& name, std::string log = {});

  // The kernel of this name. Throws if there is none, or if `args_bytes` is given and is not what the kernel takes.
  Function function(const std::string& name, size_t args_bytes = 0) const;

  // What the assembler said (registers, spills) when the cubin was made; empty if it came from the cache.
  const std::string& log() const;
  const std::string& name() const;

 private:
  std::shared_ptr<LoadedModule> module_;
};

}  // namespace heddle::cuda

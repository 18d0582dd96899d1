// What Module and Function share: a function lives inside its module, so that holding one holds the other.
#pragma once
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/context.h"

namespace heddle::cuda {

struct LoadedFunction {
  ContextState* state = nullptr;
  void* handle = nullptr;
  const std::string* name = nullptr;  // kept by the context
  std::optional<size_t> args_bytes;   // nothing: the driver does not tell
  uint32_t registers = 0, local_bytes = 0, shared_bytes = 0, max_threads = 0;
  std::atomic<uint32_t> max_dynamic_shared = 0;
};

struct LoadedModule {
  Owned module;
  std::string name, log;
  std::mutex mutex;
  std::map<std::string, LoadedFunction> functions;  // one per kernel, because attributes are the kernel's
};

}  // namespace heddle::cuda

// PTX text -> modules: by the driver's own assembler, on all cores, through the cache.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cuda/cubin_cache.h"
#include "cuda/module.h"

namespace heddle::cuda {

struct Source {
  std::string name;    // of the kernel in it
  std::string text;    // PTX
  std::string target;  // that the text is for, "sm_90a"
};

// In the order of the sources. Throws a CompileError for the first that does not assemble. `cache` may be null.
std::vector<Module> compile(const Context& context, std::span<const Source> sources, CubinCache* cache,
                            uint32_t threads = 0 /* one per core */);

// Assembled, but not loaded; without the cache.
struct Cubin {
  std::vector<std::byte> bytes;
  std::string log;
};
Cubin assemble(const Context& context, const Source& source);

}  // namespace heddle::cuda

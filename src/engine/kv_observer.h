// Who is told which whole blocks of the KV cache can be found by their contents.
#pragma once
#include <cstdint>
#include <span>

namespace heddle::engine {

// Called on the engine's thread, which waits meanwhile.
class KvObserver {
 public:
  virtual ~KvObserver() = default;
  // The block with these tokens, after the text that ends with block `before`, can be found. No number is used twice
  // before the next cleared(). 0: the beginning of a text.
  virtual void stored(uint64_t block, uint64_t before, std::span<const uint32_t> tokens) = 0;
  virtual void removed(uint64_t block) = 0;
  virtual void cleared() = 0;  // no block can be found: the cache is new, or goes
};

}  // namespace heddle::engine

// Blocks of the caches of attentions that see a window of a text. A sequence drops those that no later token sees.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/block_pool.h"
#include "model/backend.h"

namespace heddle::engine {

// A window block is found through the KV block with the same tokens. Evicting the KV block drops its window block;
// evicting the window block leaves the KV block as it is.
class WindowBlocks {
 public:
  static constexpr uint32_t none = model::no_block;

  // Beside as many KV blocks.
  WindowBlocks(uint32_t count, uint32_t kv_blocks)
      : pool_(count), beside_(count, none), of_(count ? kv_blocks : 0, none), worth_keeping_(count) {}

  uint32_t count() const { return pool_.count(); }
  uint32_t cached() const { return pool_.cached(); }
  uint32_t free() const { return pool_.free(); }  // that allocate() can return
  uint32_t holders(uint32_t block) const { return pool_.holders(block); }

  std::optional<uint32_t> allocate();  // as of KvBlocks
  void hold(uint32_t block) { pool_.hold(block); }
  // Removes a holder. What is not worth keeping is evicted before all others.
  void drop(uint32_t block, bool worth_keeping);

  uint32_t of(uint32_t kv_block) const { return of_[kv_block]; }          // none: there is none
  bool findable(uint32_t block) const { return beside_[block] != none; }  // beside a KV block
  void put_beside(uint32_t kv_block, uint32_t block);                     // neither has one
  void forget(uint32_t kv_block);                                         // that beside it, if there is one

  bool worth_keeping(uint32_t block) const { return holders(block) > 0 || worth_keeping_[block]; }
  // Called with a block that is evicted, and the KV block that it is beside, which stays.
  void on_evict(std::function<void(uint32_t block, uint32_t kv_block)> call) { on_evict_ = std::move(call); }

  // For tests: throws std::logic_error if anything is counted wrongly.
  void check_holders(std::span<const uint32_t> holders) const;

 private:
  BlockPool pool_;                   // cached: those beside a KV block
  std::vector<uint32_t> beside_;     // of each: the KV block
  std::vector<uint32_t> of_;         // of each KV block
  std::vector<bool> worth_keeping_;  // of each without a holder
  std::function<void(uint32_t, uint32_t)> on_evict_;
};

}  // namespace heddle::engine

// What routers that send a prompt to the server with the longest prefix of it are told of a KV cache: events of blocks,
// with hashes of their contents. BlockChanges takes what the engine reports, BlockIndex makes events of it.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "engine/kv_observer.h"

namespace heddle::server {

struct BlocksStored {
  std::vector<uint64_t> hashes;   // each block follows the one before
  std::optional<uint64_t> after;  // the block before the first; unset: they begin a text
  std::vector<uint32_t> tokens;   // of all
  bool operator==(const BlocksStored&) const = default;
};
struct BlocksRemoved {
  std::vector<uint64_t> hashes;
  bool operator==(const BlocksRemoved&) const = default;
};
struct AllBlocksCleared {
  bool operator==(const AllBlocksCleared&) const = default;
};
using BlockEvent = std::variant<BlocksStored, BlocksRemoved, AllBlocksCleared>;

// Of the text that ends with the block, the same on every server: SHA-256, because prompts may be made to collide.
uint64_t block_hash(std::optional<uint64_t> before, std::span<const uint32_t> tokens);

// Changes that no event was made of yet. The engine appends, another thread takes.
class BlockChanges : public engine::KvObserver {
 public:
  enum class Kind : uint8_t { stored, removed, cleared };
  struct Change {
    Kind kind;
    uint64_t block = 0, before = 0;
    uint32_t tokens = 0;
  };
  struct Taken {
    std::vector<Change> changes;
    std::vector<uint32_t> tokens;  // of the blocks that were stored, in their order
    uint64_t lost = 0;             // changes that were dropped before these
  };

  // Beyond `capacity` changes all are dropped, and it begins again with a cache that seems empty: what is announced
  // stays true.
  explicit BlockChanges(size_t capacity = 1 << 18) : capacity_(capacity) {}

  void stored(uint64_t block, uint64_t before, std::span<const uint32_t> tokens) override;
  void removed(uint64_t block) override;
  void cleared() override;

  Taken take();

 private:
  void add(const Change& change, std::span<const uint32_t> tokens = {});

  const size_t capacity_;
  std::mutex mutex_;  // guards waiting_
  Taken waiting_;
};

// The blocks that were announced. A block is announced if the one before it is: others cannot be found by a prompt. For
// the same reason those after a block go with it.
class BlockIndex {
 public:
  std::vector<BlockEvent> apply(const BlockChanges::Taken& taken);
  size_t size() const { return announced_.size(); }

 private:
  struct Announced {
    uint64_t hash, before;
    std::unordered_set<uint64_t> next;  // blocks that follow
  };
  void add(const BlockChanges::Change& change, std::span<const uint32_t> tokens, std::vector<BlockEvent>& events);
  void remove(uint64_t block, std::vector<BlockEvent>& events);

  std::unordered_map<uint64_t, Announced> announced_;  // by the engine's number
  uint64_t last_ = 0;                                  // the block that was announced last
};

}  // namespace heddle::server

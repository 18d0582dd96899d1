// The block tables of sequences: grown, shared with sequences that begin alike, and released.
#pragma once
#include <utility>

#include "engine/kv_blocks.h"
#include "engine/sequence.h"

namespace heddle::engine {

class KvCache {
 public:
  // `prefix_cache`: sequences that begin alike share what is computed of them.
  KvCache(const model::Limits& limits, bool prefix_cache)
      : blocks_(limits.kv_blocks, limits.block_tokens),
        block_tokens_(limits.block_tokens),
        prefix_cache_(prefix_cache) {}

  const KvBlocks& blocks() const { return blocks_; }
  uint32_t blocks_for(uint32_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  uint32_t capacity(const Sequence& s) const { return uint32_t(s.blocks.size()) * block_tokens_; }  // positions

  // To a capacity of `tokens`. False: every block is held; those that could be allocated stay in its table.
  bool grow(Sequence& s, uint32_t tokens);
  void trim(Sequence& s);     // to the blocks that its known tokens need
  void release(Sequence& s);  // all blocks; nothing of it is computed any more
  void forget(Sequence& s);   // what it computed cannot be trusted

  // At the end of a block: takes over the whole blocks that come next, as far as they are in the cache and nothing but
  // their KV is wanted. One token is left to compute, for its logits.
  void reuse_blocks(Sequence& s);
  bool can_reuse_next(const Sequence& s) const;  // whether the next whole block would be taken over if it were there
  // A number for the contents of the block that it computes next; 0: that is not shared.
  uint64_t next_block(const Sequence& s) const;
  // Where the next whole block is not in the cache: copies the beginning of a block that begins alike. The copies have
  // to be made before the next batch, in order.
  void reuse_beginning(Sequence& s);
  struct Copy {
    uint32_t from, to;
  };
  std::vector<Copy> take_copies() { return std::exchange(copies_, {}); }
  void publish(Sequence& s);  // the whole blocks that it has computed

  // `to` begins where `from` stands and shares its whole blocks. The last block, if it is not whole, has to be copied.
  // False: there is no block for the copy, and `to` has nothing.
  bool fork(const Sequence& from, Sequence& to, std::optional<Copy>& copy);

  void check_holders(std::span<const Sequence* const> all) const;

 private:
  void publish_last(Sequence& s);
  bool shares(const Sequence& s) const { return prefix_cache_ && s.task.request.reuse; }
  std::span<const uint32_t> tokens_of(const Sequence& s, uint32_t block) const {
    return std::span(s.tokens).subspan(size_t(block) * block_tokens_, block_tokens_);
  }

  KvBlocks blocks_;
  uint32_t block_tokens_;
  bool prefix_cache_;
  std::vector<Copy> copies_;  // to be made
};

}  // namespace heddle::engine

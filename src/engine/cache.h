// Sequences and their blocks: growing, sharing, giving back.
#pragma once
#include <utility>

#include "engine/blocks.h"
#include "engine/sequence.h"

namespace heddle::engine {

class Cache {
 public:
  // `reuse`: texts that begin alike share what is computed of them.
  Cache(const model::Limits& limits, bool reuse)
      : blocks_(limits.kv_blocks, limits.block_tokens), block_tokens_(limits.block_tokens), reuse_(reuse) {}

  const Blocks& blocks() const { return blocks_; }
  uint32_t blocks_for(uint32_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  uint32_t room(const Sequence& s) const { return uint32_t(s.blocks.size()) * block_tokens_; }  // positions

  bool grow(Sequence& s, uint32_t tokens);  // to that room; false: all are held, what there was was taken
  void trim(Sequence& s);                   // to what its known tokens need
  void release(Sequence& s);                // all; nothing of it is computed any more
  void forget(Sequence& s);                 // what it computed cannot be trusted

  // Where it stands at the end of a block, takes over those that come next as far as others have computed them and
  // nothing but their KV is wanted. A token is left, to compute logits from.
  void adopt(Sequence& s);
  // The block that it computes next, by content; 0: one that is not shared.
  uint64_t next_block(const Sequence& s) const;
  bool could_adopt_next(const Sequence& s) const;  // if somebody had computed it
  void publish(Sequence& s);                       // the whole blocks it has computed

  // Where no whole block can be taken over: has the beginning of the next one copied from a block that begins alike.
  // The copies are to be made before anything is computed, in order.
  void adopt_part(Sequence& s);
  struct Copy {
    uint32_t from, to;
  };
  std::vector<Copy> take_copies() { return std::exchange(copies_, {}); }

  // `to` begins where `from` stands, with its whole blocks. The last one that is not whole is to be copied: its place
  // in both, if there is a block for it. False: there is none, and `to` has nothing.
  bool fork(const Sequence& from, Sequence& to, std::optional<Copy>& copied);

  void check_holders(std::span<const Sequence* const> all) const;

 private:
  void leave_part(Sequence& s);
  bool shares(const Sequence& s) const { return reuse_ && s.task.request.reuse; }
  std::span<const uint32_t> tokens_of(const Sequence& s, uint32_t block) const {
    return std::span(s.tokens).subspan(size_t(block) * block_tokens_, block_tokens_);
  }

  Blocks blocks_;
  uint32_t block_tokens_;
  bool reuse_;
  std::vector<Copy> copies_;  // to be made
};

}  // namespace heddle::engine

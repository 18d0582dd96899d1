// Keys and values of one attention, in blocks of positions.
#pragma once
#include <memory>

#include "cpu/isa.h"
#include "cpu/pages.h"
#include "model/backend.h"

namespace heddle::cpu {

// A block has keys (kv_heads, head, stride), positions innermost, and values (kv_heads, tokens, value_head), or keys
// alone where values are the beginning of keys. Where the format has scales, those of a head follow it, as KvBlock
// says.
class KvCache {
 public:
  // With as many blocks, in the memory of `shared`, a cache for an attention of the same shape, unless it is null.
  KvCache(const model::Attention& attention, const model::Limits& limits, uint32_t blocks,
          const KvCache* shared = nullptr);

  // Its pages on these nodes by turns: any thread reads any position, and one node's memory would be read by all.
  void interleave(const std::vector<Node>& nodes) {
    keys_->interleave(nodes);
    values_->interleave(nodes);
  }

  // Of the keys (kv_heads, head) and values (kv_heads, value_head) of one position, those of a kv head; values that are
  // in the keys are not read.
  void put(const Isa& isa, uint32_t kv_head, uint32_t block, uint32_t token, const float* keys, const float* values);
  void copy(uint32_t from, uint32_t to);
  // A block as bytes: its keys, then its values.
  uint64_t block_bytes() const { return kv_heads_ * (key_bytes_ + value_bytes_); }
  void read(uint32_t block, uint8_t* to) const;
  void write(uint32_t block, const uint8_t* from);
  bool is_in_memory_of(const KvCache& other) const { return keys_ == other.keys_; }
  KvBlock block(uint32_t index, uint32_t kv_head, uint32_t first) const;
  const AttendHead& head() const { return head_; }

 private:
  void put_f16(const Isa& isa, const KvBlock& to, uint32_t token, const float* keys, const float* values);
  void put_q8(const KvBlock& to, uint32_t token, const float* keys, const float* values);
  AttendHead head_;
  uint32_t kv_heads_, blocks_;
  model::KvFormat format_;
  uint64_t key_count_, value_count_;      // bytes of one head in a block, before the scales
  uint64_t key_bytes_, value_bytes_;      // with them
  std::shared_ptr<Pages> keys_, values_;  // what was never written to takes no memory
};

}  // namespace heddle::cpu

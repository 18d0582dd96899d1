// The KV cache of one attention on the device: keys and values in blocks of positions, f16, or int8 with scales behind
// the values.
#pragma once
#include "cuda/memory.h"
#include "gpu/weights.h"

namespace heddle::gpu {

class KvCache {
 public:
  KvCache(const cuda::Context& context, const model::Attention& attention, const model::Limits& limits)
      : blocks_(limits.kv_blocks), q8_(limits.kv == model::KvFormat::q8) {
    // zeros: kernels may read positions that no token has written, and ignore their values
    keys_ = cuda::Buffer(context, bytes(limits, attention.kv_heads, attention.head));
    keys_.fill(0);
    if (attention.values_in_keys()) return;
    values_ = cuda::Buffer(context, bytes(limits, attention.kv_heads, attention.value_head));
    values_.fill(0);
  }

  uint64_t keys() const { return keys_.address(); }
  uint64_t values() const { return values_.address(); }
  // Of q8; otherwise 0.
  uint64_t key_scales() const { return q8_ ? keys() + value_bytes(keys_) : 0; }
  uint64_t value_scales() const { return q8_ ? values() + value_bytes(values_) : 0; }

  void copy_block(cuda::Stream& stream, uint32_t from, uint32_t to) const {
    for (const cuda::Buffer* cache : {&keys_, &values_}) {
      if (cache->bytes() == 0) continue;
      auto copy = [&](uint64_t start, uint64_t of_all_blocks) {
        const uint64_t block = of_all_blocks / blocks_;
        cuda::copy_device(stream, start + to * block, start + from * block, block);
      };
      const uint64_t values = value_bytes(*cache);
      copy(cache->address(), values);
      if (q8_) copy(cache->address() + values, cache->bytes() - values);
    }
  }

  // The device memory of the caches of all attentions.
  static uint64_t bytes(const model::Model& model, const model::Limits& limits) {
    uint64_t total = 0;
    model::each_attention(model, [&](const model::Attention& a) {
      for (uint32_t head : {a.head, a.values_in_keys() ? 0 : a.value_head})
        if (head) total += allocated(bytes(limits, a.kv_heads, head));
    });
    return total;
  }

 private:
  static uint64_t bytes(const model::Limits& limits, uint32_t kv_heads, uint32_t head) {
    const uint64_t values = uint64_t(limits.kv_blocks) * limits.block_tokens * kv_heads * head;
    return limits.kv == model::KvFormat::q8 ? values / 32 * 34 : values * 2;
  }
  uint64_t value_bytes(const cuda::Buffer& cache) const { return q8_ ? cache.bytes() / 34 * 32 : cache.bytes(); }

  cuda::Buffer keys_, values_;
  uint32_t blocks_;
  bool q8_;
};

}  // namespace heddle::gpu

// A KV cache on the device, of one attention or of several that share it: keys and values in blocks of positions, f16,
// or int8 with scales behind the values.
#pragma once
#include "cuda/memory.h"
#include "gpu/weights.h"
#include "quant/kv_q8.h"

namespace heddle::gpu {

class KvCache {
 public:
  KvCache(const cuda::Context& context, const model::Attention& attention, const model::Limits& limits, bool of_windows)
      : of_windows_(of_windows && limits.window_blocks > 0),
        keys_(context, limits, of_windows, attention.kv_heads, attention.head),
        values_(context, limits, of_windows, attention.kv_heads,
                attention.values_in_keys() ? 0 : attention.value_head) {}

  bool of_windows() const { return of_windows_; }  // its blocks are those of windows

  uint64_t keys() const { return keys_.buffer.address(); }
  uint64_t values() const { return values_.buffer.address(); }
  // Of q8; otherwise 0.
  uint64_t key_scales() const { return keys_.scales(); }
  uint64_t value_scales() const { return values_.scales(); }

  void copy_block(cuda::Stream& stream, uint32_t from, uint32_t to) const {
    for (const Rows* rows : {&keys_, &values_}) {
      auto copy = [&](uint64_t start, uint64_t block) {
        if (block) cuda::copy_device(stream, start + to * block, start + from * block, block);
      };
      copy(rows->buffer.address(), rows->sizes.values);
      copy(rows->scales(), rows->sizes.scales);
    }
  }

  // A block as bytes: keys, their scales, values, their scales. f(address, bytes) for each of these.
  void each_part(uint32_t block, auto&& f) const {
    for (const Rows* rows : {&keys_, &values_}) {
      if (rows->buffer.bytes() == 0) continue;
      f(rows->buffer.address() + block * rows->sizes.values, rows->sizes.values);
      if (rows->sizes.scales) f(rows->scales() + block * rows->sizes.scales, rows->sizes.scales);
    }
  }

  // The device memory of all caches.
  static uint64_t bytes(const model::Model& model, const model::Limits& limits) {
    uint64_t total = 0;
    model::each_kv_cache(model, [&](const model::Attention& a, bool of_windows) {
      for (uint32_t head : {a.head, a.values_in_keys() ? 0 : a.value_head})
        total += allocated(Sizes(limits, of_windows, a.kv_heads, head).all());
    });
    return total;
  }

 private:
  // Of a block of positions, in bytes.
  struct Sizes {
    uint64_t blocks, values, scales = 0;
    Sizes(const model::Limits& limits, bool of_windows, uint64_t kv_heads, uint32_t head)
        : blocks(model::blocks_of_cache(limits, of_windows)) {
      const bool q8 = limits.kv == model::KvFormat::q8;
      const uint64_t heads = limits.block_tokens * kv_heads;
      values = heads * head * (q8 ? 1 : 2);
      if (q8) scales = heads * quant::kv_q8_groups(head) * sizeof(uint16_t);
    }
    uint64_t scales_at() const { return (blocks * values + 15) / 16 * 16; }
    uint64_t all() const { return scales ? scales_at() + blocks * scales : blocks * values; }
  };
  // Those of all blocks, and behind them their scales.
  struct Rows {
    Sizes sizes;
    cuda::Buffer buffer;
    Rows(const cuda::Context& context, const model::Limits& limits, bool of_windows, uint32_t kv_heads, uint32_t head)
        : sizes(limits, of_windows, kv_heads, head) {
      if (head == 0) return;
      buffer = cuda::Buffer(context, sizes.all());
      buffer.fill(0);  // kernels may read positions that no token has written, and ignore their values
    }
    uint64_t scales() const { return sizes.scales ? buffer.address() + sizes.scales_at() : 0; }
  };

  bool of_windows_;
  Rows keys_, values_;
};

}  // namespace heddle::gpu

// Where the keys and values of a position lie in its block, as f16 or q8.
#include "cpu/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "quant/kv_q8.h"

namespace heddle::cpu {
namespace {

using model::KvFormat;
using quant::kv_q8_values;

uint64_t bytes_of(KvFormat format, uint64_t values) {
  return format == KvFormat::f16 ? values * 2 : values + values / kv_q8_values * 2;
}

}  // namespace

void expect_kv_format(const model::Model& model, const model::Limits& limits) {
  if (limits.kv != KvFormat::q8) return;
  for (size_t i = 0; i < model.layers.size(); ++i)
    for (const model::Sublayer& sublayer : model.layers[i].sublayers) {
      const auto* a = std::get_if<model::Attention>(&sublayer);
      if (!a) continue;
      for (const uint32_t size : {a->head, a->value_head})
        if (size % kv_q8_values != 0)
          throw Error(
              "{}: layer {}: a KV cache in q8 expects heads whose size is a multiple of {}, found {}; f16 takes any",
              model.name, i, kv_q8_values, size);
    }
}

KvCache::KvCache(const model::Attention& a, const model::Limits& limits)
    : head_{a.head,
            a.value_head,
            a.heads / a.kv_heads,
            limits.block_tokens,
            (limits.block_tokens + 15) / 16 * 16,
            a.scale,
            a.softcap,
            a.window},
      kv_heads_(a.kv_heads),
      blocks_(limits.kv_blocks),
      format_(limits.kv),
      key_count_(uint64_t(a.head) * head_.stride),
      value_count_(uint64_t(a.value_head) * limits.block_tokens),
      key_bytes_(bytes_of(format_, key_count_)),
      value_bytes_(bytes_of(format_, value_count_)),
      keys_(blocks_ * kv_heads_ * key_bytes_),
      values_(blocks_ * kv_heads_ * value_bytes_) {}

KvBlock KvCache::block(uint32_t index, uint32_t kv_head, uint32_t first) const {
  const uint64_t place = uint64_t(index) * kv_heads_ + kv_head;
  uint8_t *keys = keys_.data() + place * key_bytes_, *values = values_.data() + place * value_bytes_;
  if (format_ == KvFormat::f16) return {keys, values, nullptr, nullptr, first};
  return {keys, values, reinterpret_cast<uint16_t*>(keys + key_count_),
          reinterpret_cast<uint16_t*>(values + value_count_), first};
}

void KvCache::put(const Isa& isa, uint32_t index, uint32_t token, const float* keys, const float* values) {
  for (uint32_t h = 0; h < kv_heads_; ++h, keys += head_.head, values += head_.value_head) {
    if (format_ == KvFormat::f16)
      put_f16(isa, block(index, h, 0), token, keys, values);
    else
      put_q8(block(index, h, 0), token, keys, values);
  }
}

void KvCache::put_f16(const Isa& isa, const KvBlock& to, uint32_t token, const float* keys, const float* values) {
  isa.f16_of_f32(values, head_.value_head, static_cast<uint16_t*>(to.values) + uint64_t(token) * head_.value_head);
  constexpr uint32_t at_once = 64;
  uint16_t halves[at_once];
  for (uint32_t i = 0; i < head_.head; i += at_once) {
    const uint32_t count = std::min(at_once, head_.head - i);
    isa.f16_of_f32(keys + i, count, halves);
    uint16_t* at = static_cast<uint16_t*>(to.keys) + uint64_t(i) * head_.stride + token;
    for (uint32_t j = 0; j < count; ++j) at[j * head_.stride] = halves[j];
  }
}

void KvCache::put_q8(const KvBlock& to, uint32_t token, const float* keys, const float* values) {
  int8_t bytes[kv_q8_values];
  for (uint32_t i = 0; i < head_.head; i += kv_q8_values) {
    to.key_scales[i / kv_q8_values * head_.stride + token] = quant::encode_kv_q8(keys + i, bytes);
    int8_t* at = static_cast<int8_t*>(to.keys) + uint64_t(i) * head_.stride + token;
    for (uint32_t j = 0; j < kv_q8_values; ++j) at[j * head_.stride] = bytes[j];
  }
  for (uint32_t i = 0; i < head_.value_head; i += kv_q8_values) {
    const uint64_t place = uint64_t(token) * head_.value_head + i;
    to.value_scales[place / kv_q8_values] = quant::encode_kv_q8(values + i, static_cast<int8_t*>(to.values) + place);
  }
}

void KvCache::copy(uint32_t from, uint32_t to) {
  check(from < blocks_ && to < blocks_, "blocks of the cache");
  if (from == to) return;
  const uint64_t key_bytes = kv_heads_ * key_bytes_, value_bytes = kv_heads_ * value_bytes_;
  std::memcpy(keys_.data() + to * key_bytes, keys_.data() + from * key_bytes, key_bytes);
  std::memcpy(values_.data() + to * value_bytes, values_.data() + from * value_bytes, value_bytes);
}

}  // namespace heddle::cpu

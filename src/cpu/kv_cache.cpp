// Where the keys and values of a position lie in its block, as f16 or q8.
#include "cpu/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "quant/kv_q8.h"

namespace heddle::cpu {
namespace {

using model::KvFormat;
using quant::kv_q8_groups;
using quant::kv_q8_values;

// Of `tokens` positions of a head: an even number, for what follows it has two bytes.
uint64_t bytes_of(KvFormat format, uint64_t tokens, uint32_t head) {
  return format == KvFormat::f16 ? tokens * head * 2 : (tokens * head + 1) / 2 * 2;
}
uint64_t scale_bytes_of(KvFormat format, uint64_t tokens, uint32_t head) {
  return format == KvFormat::f16 ? 0 : tokens * kv_q8_groups(head) * 2;
}

}  // namespace

KvCache::KvCache(const model::Attention& a, const model::Limits& limits, uint32_t blocks, const KvCache* shared)
    : head_{a.head,
            a.value_head,
            a.heads / a.kv_heads,
            limits.block_tokens,
            (limits.block_tokens + 15) / 16 * 16,
            a.scale,
            a.softcap,
            a.values_in_keys(),
            a.slopes.empty() ? nullptr : a.slopes.data()},
      kv_heads_(a.kv_heads),
      blocks_(blocks),
      format_(limits.kv),
      key_count_(bytes_of(format_, head_.stride, a.head)),
      value_count_(a.values_in_keys() ? 0 : bytes_of(format_, head_.tokens, a.value_head)),
      key_bytes_(key_count_ + scale_bytes_of(format_, head_.stride, a.head)),
      value_bytes_(a.values_in_keys() ? 0 : value_count_ + scale_bytes_of(format_, head_.tokens, a.value_head)),
      keys_(shared ? shared->keys_ : std::make_shared<Pages>(blocks_ * kv_heads_ * key_bytes_, Pages::Size::large)),
      values_(shared ? shared->values_
                     : std::make_shared<Pages>(blocks_ * kv_heads_ * value_bytes_, Pages::Size::large)) {
  check(keys_->bytes() == blocks_ * kv_heads_ * key_bytes_ && values_->bytes() == blocks_ * kv_heads_ * value_bytes_,
        "attentions of one shape where they share a cache");
}

KvBlock KvCache::block(uint32_t index, uint32_t kv_head, uint32_t first) const {
  const uint64_t place = uint64_t(index) * kv_heads_ + kv_head;
  uint8_t* keys = keys_->data() + place * key_bytes_;
  uint8_t* values = head_.values_in_keys ? nullptr : values_->data() + place * value_bytes_;
  if (format_ == KvFormat::f16) return {keys, values, nullptr, nullptr, first};
  return {keys, values, reinterpret_cast<uint16_t*>(keys + key_count_),
          values ? reinterpret_cast<uint16_t*>(values + value_count_) : nullptr, first};
}

void KvCache::put(const Isa& isa, uint32_t kv_head, uint32_t index, uint32_t token, const float* keys,
                  const float* values) {
  keys += uint64_t(kv_head) * head_.head;
  if (!head_.values_in_keys) values += uint64_t(kv_head) * head_.value_head;
  if (format_ == KvFormat::f16)
    put_f16(isa, block(index, kv_head, 0), token, keys, values);
  else
    put_q8(block(index, kv_head, 0), token, keys, values);
}

void KvCache::put_f16(const Isa& isa, const KvBlock& to, uint32_t token, const float* keys, const float* values) {
  if (to.values)
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
    const uint32_t count = std::min(kv_q8_values, head_.head - i);
    to.key_scales[i / kv_q8_values * head_.stride + token] = quant::encode_kv_q8(keys + i, bytes, count);
    int8_t* at = static_cast<int8_t*>(to.keys) + uint64_t(i) * head_.stride + token;
    for (uint32_t j = 0; j < count; ++j) at[j * head_.stride] = bytes[j];
  }
  if (!to.values) return;
  int8_t* of_token = static_cast<int8_t*>(to.values) + uint64_t(token) * head_.value_head;
  uint16_t* scale = to.value_scales + uint64_t(token) * kv_q8_groups(head_.value_head);
  for (uint32_t i = 0; i < head_.value_head; i += kv_q8_values)
    *scale++ = quant::encode_kv_q8(values + i, of_token + i, std::min(kv_q8_values, head_.value_head - i));
}

void KvCache::copy(uint32_t from, uint32_t to) {
  check(from < blocks_ && to < blocks_, "blocks of the cache");
  if (from == to) return;
  const uint64_t key_bytes = kv_heads_ * key_bytes_, value_bytes = kv_heads_ * value_bytes_;
  std::memcpy(keys_->data() + to * key_bytes, keys_->data() + from * key_bytes, key_bytes);
  if (value_bytes) std::memcpy(values_->data() + to * value_bytes, values_->data() + from * value_bytes, value_bytes);
}

void KvCache::read(uint32_t block, uint8_t* to) const {
  const uint64_t key_bytes = kv_heads_ * key_bytes_, value_bytes = kv_heads_ * value_bytes_;
  std::memcpy(to, keys_->data() + block * key_bytes, key_bytes);
  if (value_bytes) std::memcpy(to + key_bytes, values_->data() + block * value_bytes, value_bytes);
}

void KvCache::write(uint32_t block, const uint8_t* from) {
  const uint64_t key_bytes = kv_heads_ * key_bytes_, value_bytes = kv_heads_ * value_bytes_;
  std::memcpy(keys_->data() + block * key_bytes, from, key_bytes);
  if (value_bytes) std::memcpy(values_->data() + block * value_bytes, from + key_bytes, value_bytes);
}

}  // namespace heddle::cpu

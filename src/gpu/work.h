// The buffers of a step. All are made while loading: a step allocates nothing.
#pragma once
#include <algorithm>

#include "cuda/memory.h"
#include "gpu/weights.h"

namespace heddle::gpu {

inline constexpr uint32_t few_rows = 8;                  // that pick with biases and penalties, and go on by themselves
inline constexpr uint32_t product_rows = 2;              // up to so many are done by `product`,
inline constexpr uint32_t some_rows = 64;                // so many by `mma_product`, more with weights unpacked
inline constexpr uint32_t prompt_tile = 64;              // tokens of a prompt that attention takes at once
inline constexpr uint32_t logit_rows = 64;               // whose logits are on the device at once
inline constexpr uint32_t expert_rows = 64;              // of a mixture at once
inline constexpr uint64_t scratch_bytes = 256ull << 20;  // weights unpacked at once
inline constexpr uint32_t kept_steps = 8;                // whose tokens are kept for the host
inline constexpr uint32_t most_biases = 1024;            // of a row

// Values of a row, with room for vector loads.
constexpr uint32_t stride_of(uint64_t values) { return uint32_t((values + 7) / 8 * 8); }
constexpr uint32_t half_stride(uint64_t values) { return uint32_t((values + 63) / 64 * 64); }

// In values.
struct WorkSizes {
  WorkSizes(const model::Model& model, const model::Limits& limits, uint32_t sms);

  uint32_t rows, table_stride;
  uint32_t width, qkv, q, attended, inner, act;  // strides; inner: gate and up before the activation
  uint32_t half;                                 // of f16 rows
  uint64_t scratch = 0;                          // f16 values
  uint32_t experts = 0, used = 0, expert_inner = 0, expert_act = 0;  // of mixtures
  uint64_t partial = 0, arrived = 0;                                 // of attention
  uint32_t context, vocabulary;

  // Rows that one launch picks for, where none of them has biases or penalties.
  uint32_t picked_at_once() const { return std::max(std::min(logit_rows, rows), few_rows); }
  uint64_t bytes() const;
};

struct Work {
  Work(const cuda::Context& context, const WorkSizes& sizes);

  cuda::Buffer h, qkv, q, attended, inner, act, result, shared;  // f32 rows; result: of a product before a norm
  cuda::Buffer half, half_scale, scratch;
  cuda::Buffer router, expert_ids, expert_weights, expert_inner, expert_act, expert_result, always;
  cuda::Buffer logits, partial, arrived;
  cuda::Buffer tokens, positions, lengths, sequences, table, outputs, tiles;
  cuda::Buffer picked, params, history, step, texts, biases, changed;
};

}  // namespace heddle::gpu

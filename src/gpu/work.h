// The buffers of a batch. All are allocated while loading: a batch allocates nothing.
#pragma once
#include <algorithm>

#include "cuda/memory.h"
#include "gpu/weights.h"
#include "kernels/state/chunked_recurrence.h"

namespace heddle::gpu {

inline constexpr uint32_t max_vector_rows = 2;         // of VectorProducts: see paths.h
inline constexpr uint32_t max_router_rows = 8;         // that one launch of `router` takes
inline constexpr uint32_t max_few_rows = 16;           // of MatrixProducts: see paths.h
inline constexpr uint32_t max_step_rows = 256;         // of a step
inline constexpr uint32_t max_late_rows = 128;         // of a batch with late norms: see forward.h
inline constexpr uint32_t max_changed_rows = 64;       // with biases or penalties, of those that are picked at once
inline constexpr uint32_t max_steps_in_flight = 8;     // launched before the result of the first is taken
inline constexpr uint32_t max_biases = 1024;           // of a row
inline constexpr uint32_t max_top_tokens = 20;         // of a row, with their log-probabilities
inline constexpr uint32_t max_logit_rows = 256;        // with logits on the device at once
inline constexpr uint32_t max_expert_rows = 64;        // that go through the experts of a mixture at once, row by row
inline constexpr uint32_t max_expert_vector_rows = 8;  // more are grouped by expert, where the GPU can
inline constexpr uint32_t max_few_expert_rows = 4;     // expected of an expert: these take mma_product
inline constexpr uint32_t min_expert_tile = 8, max_expert_tile = 64;  // rows of an expert in a tile of a product
inline constexpr uint32_t prompt_tile = 128;                          // tokens of a prompt that attention takes at once
// With as many rows of a sequence its latents become keys and values of heads: 2 * 512 * 256 operations for each
// position and head of DeepSeek's, and each row saves 2 * (1088 - 320) of them.
inline constexpr uint32_t min_expanded_rows = 256;
inline constexpr uint32_t min_chunked_rows = 32;           // of a sequence: they change recurrent states in chunks
inline constexpr uint64_t max_expanded_bytes = 256 << 20;  // of all heads that are attended to at once

// Values from one row of f32 to the next, padded for vector loads.
constexpr uint32_t stride_of(uint64_t values) { return uint32_t((values + 7) / 8 * 8); }

// The sizes of heads that cluster_attention, prompt_attention and wgmma_attention are built for.
constexpr bool is_usual_head(uint32_t size) {
  for (uint32_t usual : {64u, 80u, 96u, 112u, 128u, 160u, 192u, 256u, 512u})
    if (size == usual) return true;
  return false;
}
// Whether wgmma_attention takes the heads that latents become.
bool can_expand(const model::Latent& latent);
// Positions of keys and values that are a page of their own, and the bytes that they take of a head.
constexpr uint32_t expanded_positions(uint32_t positions) { return (positions + 15) / 16 * 16; }
inline uint64_t expanded_bytes(const model::Latent& l, uint32_t positions) {
  return uint64_t(expanded_positions(positions)) * (l.plain + l.rotated + l.value) * 2;
}

// Whether the kernels of chunked recurrences take these heads.
inline bool can_chunk(const model::Recurrence& r) { return r.key <= kernels::max_chunked_key; }

// The dimensions of the buffers, in values.
struct WorkSizes {
  // `group_experts`: batches of many rows take them by expert; `expand_latents`: long prompts have keys and values;
  // `chunk_states`: recurrent states take them in chunks.
  WorkSizes(const model::Model& model, const model::Limits& limits, uint32_t sms, bool group_experts = false,
            bool expand_latents = false, bool chunk_states = false);

  uint32_t rows = 0, table_stride = 0, context = 0;
  bool windows = false;                                                  // some caches have blocks of windows
  uint32_t vocabulary = 0;                                               // 0: a part of a model without a head
  uint32_t width = 0, qkv = 0, q = 0, attended = 0, inner = 0, act = 0;  // strides; inner: gate and up
  uint32_t half = 0;                                                     // stride of f16 rows
  uint32_t experts = 0, used = 0, expert_inner = 0, expert_act = 0;      // of mixtures
  uint32_t expert_slots = 0, expert_half = 0;  // of rows grouped by expert, and their stride as f16; 0: never grouped
  uint32_t late_rows = 0, late_norms = 0;      // of late norms: rows in whole groups, and norms
  uint64_t partial = 0, arrived = 0;           // of attention
  uint32_t latent_q = 0, latent_ranges = 0, raised = 0;  // of latent attention: strides; ranges of all rows
  uint64_t expanded = 0;                                 // of long prompts' latents, in bytes
  uint32_t mixed = 0, convolved = 0, recurred = 0;       // of sublayers with a state: strides; mixed: all they read
  uint32_t gate = 0;                                     // of attention's output: stride
  uint32_t inputs = 0;                                   // of a token, for all layers: stride
  uint32_t laurel = 0, latent = 0;                       // of Laurel and of experts of latents: strides
  uint32_t others = 0;                                   // residual streams beside the first (AltUp)
  uint32_t rank_squares = 0;                             // of norms over values of several ranks: stride
  bool normed = false;                                   // some rows are kept after their norm
  bool states = false;                                   // there are such sublayers
  uint32_t chunks = 0, chunk_keys = 0, chunk_heads = 0;  // of their prompts; of a row: numbers of all keys, and heads
  bool next_head = false;                                // one of them is a NextHead

  uint32_t picked_at_once() const { return std::min(max_logit_rows, rows); }
  uint32_t changed_at_once() const { return std::min(max_changed_rows, rows); }
  uint32_t mask_words() const { return (vocabulary + 31) / 32; }
  uint64_t bytes() const;
};

// f32 unless another type is given; the names in shapes are those of WorkSizes.
struct Work {
  Work(const cuda::Context& context, const WorkSizes& sizes);

  cuda::Buffer h;                                   // (rows, width): the residual stream
  cuda::Buffer qkv, q, attended, inner, act;        // (rows, the size of that name); attended and inner also have room
                                                    // for whole groups of rows of f16
  cuda::Buffer result, shared;                      // (rows, width): a product before its norm; of the shared expert
  cuda::Buffer half, half_scale;                    // (rows, half) f16, (rows): the input of the matrix units; or
                                                    // (expert_slots, expert_half), (expert_slots)
  cuda::Buffer attended_scale, act_scale;           // (rows): factors of rows that kernels write as f16
  cuda::Buffer late, squares;                       // (2, late_rows, width) f16; (late_norms, max_late_rows) RowSquares
  cuda::Buffer router, expert_ids, expert_weights;  // (rows, experts + 1); (rows, used) ids and weights
  cuda::Buffer expert_inner, expert_act;            // (max_expert_rows * used, expert_inner or expert_act)
  cuda::Buffer expert_list, expert_slot_of, expert_tiles, expert_tile_count;  // see kernels::GroupRows
  cuda::Buffer expert_slot_weights;                                           // the same
  cuda::Buffer grouped_act, grouped_result;                                   // (expert_slots, expert_act or width)
  cuda::Buffer always;                                                        // scores with a sigmoid of 1
  cuda::Buffer logits;                                                        // (max_logit_rows, vocabulary)
  cuda::Buffer partial, arrived;                                              // of cluster_attention
  cuda::Buffer latent_q, latent_sums, raised;  // of latent attention: (rows, latent_q) f16, (latent_ranges, 2), and
                                               // (rows, raised), its result
  cuda::Buffer expanded, first_page;           // f16: keys (heads, positions, head), then values; i32: a table of 0
  cuda::Buffer mixed, convolved, recurred;     // of sublayers with a state: (rows, the size of that name)
  cuda::Buffer gate;                           // (rows, gate)
  cuda::Buffer inputs, laurel, latent;         // (rows, the size of that name)
  cuda::Buffer rank_squares;                   // (rows, rank_squares)
  cuda::Buffer normed;                         // (rows, width): what a norm leaves
  cuda::Buffer others, kept;                   // of AltUp: (others, rows, width), and (rows, width)
  cuda::Buffer results, before;  // of models with a NextHead, (rows, width): what the final norm leaves of
                                 // rows, and of those before; of a batch that predicts, both in `before`
  cuda::Buffer runs, order;      // (rows) StateRun, (rows) u32
  cuda::Buffer chunk_list;       // (chunks) StateChunk
  cuda::Buffer keys_of_chunks, queries_of_chunks;  // (chunks, chunk_rows, chunk_keys) f16; see kernels::ChunkedArgs
  cuda::Buffer inverses, scores, factors;  // (chunks, chunk_heads, chunk_rows, chunk_rows) f16; (..., 4, chunk_rows)
  cuda::Buffer tokens, positions, lengths, sequences, outputs;  // (rows) u32
  cuda::Buffer table, window_table;                             // (rows, table_stride) u32; of caches of windows
  cuda::Buffer tiles;                                           // (rows) PromptTile
  cuda::Buffer types;                                           // (rows) u32: token types
  cuda::Buffer text_lengths, tile_lengths;  // (rows) u32: of attention in both directions, by row and by tile
  cuda::Buffer picked, params;              // (rows) Sampled; (picked_at_once) SampleRow
  cuda::Buffer tops;                        // (rows, max_top_tokens) Sampled
  cuda::Buffer history, step;               // (max_steps_in_flight, rows of the step) Sampled; steps so far, u64
  cuda::Buffer texts;                       // (changed_at_once, context) u32
  cuda::Buffer biases;                      // (changed_at_once, max_biases) TokenBias
  cuda::Buffer changed;                     // (changed_at_once, vocabulary)
  cuda::Buffer masks;                       // (picked_at_once, mask_words) u32
};

}  // namespace heddle::gpu

// The memory a model needs on a device, and what fits there.
#pragma once
#include "cuda/device.h"
#include "main/device/device_options.h"
#include "model/backend.h"

namespace heddle {

// For the backend that `options` ask for; with `gpu`, on that GPU.
model::Memory memory_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits,
                         const cuda::DeviceInfo* gpu = nullptr);
// Slots for recurrent states beside this many KV blocks: each block and its part of a slot are paid for together. A
// cache for many requests has one for each 512 tokens, because a conversation of 2048 has about four: of the sequence
// that runs, at the end of its prompt, at the end of its answer, and before proposals. One user needs no more than 16
// whatever the context, and many no more than 128.
uint32_t state_slots_for(const DeviceOptions& options, uint32_t kv_blocks);
// Blocks of windows beside this many KV blocks, of which a text of 4096 tokens or of four windows takes as many as its
// last window; for one user, those of four texts. An eighth of the KV blocks at least, because what a window has left
// behind can be reused as long as it is there. 0: the model has none, or they would be no fewer than KV blocks.
uint32_t window_blocks_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits);
model::Limits draft_limits(model::Limits limits);  // of the draft of a model with these: it has one block table
// For one sequence with this context, or for the cache that `options` ask for if that is smaller.
model::Limits limits_for(const DeviceOptions& options, uint32_t context, uint32_t rows);
// The same for this model. An encoder computes a text in one batch, which has rows for the whole context, and no block
// is kept after it: there are blocks for the rows of a batch of up to 64 texts.
model::Limits limits_for(const model::Model& model, const DeviceOptions& options, uint32_t context, uint32_t rows);
// The largest context up to `max`, a multiple of 32 or `max` itself, that needs no more than `available` bytes; 0 if
// there is none. A draft has a KV cache for as many tokens.
uint32_t largest_context(const model::Model& model, const DeviceOptions& options, uint32_t max, uint32_t rows,
                         uint64_t available, const cuda::DeviceInfo* gpu = nullptr,
                         const model::Model* draft = nullptr);

// Tokens of a batch. An H200 takes a prompt of an 8B model at 15 600 tokens per second by 512, at 22 700 by 2048.
inline constexpr uint32_t gpu_rows = 2048;
uint32_t cpu_rows(const DeviceOptions& options);  // many threads need many rows to share them evenly

double parameters(const model::Model& model);  // weights of all matrices; shared ones count once

// Thrown for a model that does not fit into memory.
class TooLittleMemory : public Error {
 public:
  using Error::Error;
};

// Of the system's memory, what is free and may be used.
uint64_t usable_on_cpu(const DeviceOptions& options);

// The part of a GPU's free memory that a model may take: kernels, graphs and other programs need some, too.
uint64_t usable_memory(uint64_t free);

// Whether and with which context a model fits into the memory of a device.
struct Fit {
  uint32_t context = 0;  // to run with; 0: it does not fit
  uint32_t largest = 0;  // context that would fit; 0: none would
  model::Memory needed;  // for all of the model's context
  model::Memory draft;   // the same, of the draft
  uint64_t available = 0;
  model::Limits limits;  // with `context`, and with as much of the requested cache as fits
  uint64_t total() const { return needed.total() + draft.total(); }
};
// A context that was asked for is not cut. `available` 0: unknown, everything fits. With DeviceOptions::many the cache
// takes a GPU's memory up to 256 contexts, or on the CPU 8 contexts but at most a quarter of what is available. Where
// cache_tokens are asked for, what is left of the memory goes to blocks of windows: short texts then fill the cache.
Fit fit(const model::Model& model, const DeviceOptions& options, uint32_t rows, uint64_t available,
        const cuda::DeviceInfo* gpu = nullptr, const model::Model* draft = nullptr);

// One line: what is missing and what would fit. `where`: " on cuda:0 NVIDIA H200", or nothing for the CPU.
std::string does_not_fit(const model::Model& model, const Fit& fit, const std::string& where,
                         const model::Model* draft = nullptr);
// The largest of the usual GGUF types whose weights are smaller and fit, by bits per weight; empty if there is none.
std::string fitting_type(const model::Model& model, const Fit& fit);

}  // namespace heddle

// The CPU backends. The fast one: weights repacked while loading or when they are used, integer products, a team of
// threads that stays awake for a whole step, a KV cache in f16 or q8. The reference: slow and obvious; every other
// backend is compared with it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/backend.h"
#include "model/collective.h"

namespace heddle::cpu {

struct Options {
  uint32_t threads = 0;      // 0: one per core
  std::string isa = "auto";  // or a name of isa_names()
  bool exact = false;        // activations stay f32: slower, closer to the reference
  // False: weights stay in the file, which the system may drop from memory and read again; a tile is packed whenever it
  // is multiplied. Slower, for models that do not fit into memory. The results are the same.
  bool repack = true;
  // Called while weights are packed, with the bytes done and the bytes in all. May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
  // Of a model that is one rank's part (shard.h): the other ranks, which compute the same batches. They must have the
  // same instruction set: all have to pick the same experts.
  model::Collective* ranks = nullptr;
  std::string root;  // has the folder sys of the system, for tests
};

// The instruction sets of this binary that this machine has, best first; "plain" is always there.
std::vector<std::string> isa_names();
// All of this binary, best first.
std::vector<std::string> built_isa_names();

// The model must outlive it. Throws an Error if the machine lacks the instruction set asked for.
//
// A row's result depends on the tokens of its sequence up to it, bit by bit, and on nothing else: not on the number of
// threads, on how the tokens were cut into batches, on other rows of a batch, or on which blocks hold them. Where
// attention goes in both directions, it depends on all tokens of its sequence, which are in one batch.
std::unique_ptr<model::Backend> make_cpu(const model::Model& model, const model::Limits& limits,
                                         const Options& options = {});

// The memory that make_cpu() takes (and its Errors), before anything is read: weights, the cache when it is full, and
// an upper bound for the workspace.
model::Memory memory_needed(const model::Model& model, const model::Limits& limits, const Options& options = {});

// The plain backend: every weight decoded, every product in f32 with sums in f64, the KV cache in f32 (with q8, of the
// values that q8 keeps). The model must outlive it.
std::unique_ptr<model::Backend> make_reference(const model::Model& model, const model::Limits& limits);
// The same of one rank's part of a model.
std::unique_ptr<model::Backend> make_reference_rank(const model::Model& model, const model::Limits& limits,
                                                    model::Collective& ranks);

// Bytes per second at which `threads` threads (0: one per core) read a buffer of `bytes_per_token` over and over: the
// limit for decoding one sequence of a model that reads that many bytes per token. A small model is read from the
// caches; the default is more than these hold.
double read_bandwidth(uint32_t threads = 0, uint64_t bytes_per_token = UINT64_MAX);

}  // namespace heddle::cpu

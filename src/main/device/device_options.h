// Options of every command that runs a model: where and how it runs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "main/device/rank_options.h"
#include "model/backend.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle {

inline constexpr uint32_t all_layers = ~0u;

struct DeviceOptions {
  std::string device = "auto";          // auto, cpu or cuda:N
  std::string backend;                  // cpu or reference: a CPU backend by name; empty: the one of the device
  std::string isa = "auto";             // instruction set of the cpu backend
  uint32_t threads = 0;                 // 0: one per core
  std::optional<uint32_t> gpu_layers;   // the first layers, on the GPU; unset: as many as fit
  std::optional<uint32_t> cpu_experts;  // layers with experts on the CPU, all_layers for all; unset: as it fits
  uint64_t gpu_memory = 0;              // bytes of a GPU that may be used; 0: all that is free
  uint64_t cpu_memory = 0;              // bytes of the system's memory that may be used; 0: all that is free
  uint32_t context = 0;                 // tokens; 0: as trained, or less if memory is short
  uint32_t cache_tokens = 0;  // of all sequences, less if memory is short; 0: one sequence with its whole context
  uint32_t at_once = 1;       // sequences that are known to run at once; recurrent states are for twice as many
  bool many = false;          // without cache_tokens: a cache for many sequences, see fit()
  uint32_t shares = 1;        // parts of the free memory, of which such a cache fills one
  // Other models of this process have memory that they could give up: a model that does not fit is neither split nor
  // run on another device or with a short context, but TooLittleMemory is thrown.
  bool beside_others = false;
  model::KvFormat kv = model::KvFormat::f16;
  bool exact = false;              // activations are not quantised
  bool no_repack = false;          // weights stay in the file, on the CPU: slower, with little memory
  bool deterministic = false;      // a GPU computes a row independently of the rest of its batch; a CPU always does
  bool no_selftest = false;        // a GPU is not tested before it is used
  bool trace = false;              // a GPU keeps the times of its kernels
  bool untrained_context = false;  // a context beyond the trained one is no mistake: only the time counts
  std::string draft;               // a model that proposes tokens; empty: none
  bool mtp = false;                // the model's own head for multi-token prediction proposes tokens
  RankOptions ranks;               // the processes that compute it together
  std::optional<uint32_t> draft_tokens;  // that either proposes at once; unset: see proposals()

  uint32_t proposals() const { return draft_tokens.value_or(mtp ? 3 : 8); }
};
// Whether a split between GPU and CPU was asked for by numbers.
inline bool asks_for_split(const DeviceOptions& options) { return options.gpu_layers || options.cpu_experts; }
// "f16" or "q8"; anything else is an Error.
model::KvFormat kv_named(const std::string& name);
const char* name_of(model::KvFormat kv);

void describe_device(CLI::App& command, DeviceOptions& options);
// --gpu-as, for proving and timing what other GPUs run: not in the help.
void describe_gpu_as(CLI::App& command);
void describe_split(CLI::App& command, DeviceOptions& options);  // a part of these
void describe_draft(CLI::App& command, DeviceOptions& options);  // of commands that generate tokens
// The argument MODEL, with weft as its default.
CLI::Option* describe_model(CLI::App& command, std::string& name);
// The same for several, or for a folder of them.
CLI::Option* describe_models_to_serve(CLI::App& command, std::vector<std::string>& names);
CLI::Option* describe_required_model(CLI::App& command, std::string& name);

// The number in "cuda:N".
std::optional<uint32_t> cuda_number(const std::string& device);

// Where to run: a GPU, the CPU, or (neither) the first that can.
struct WantedDevice {
  bool cpu = false;
  std::optional<uint32_t> gpu;
};
// Throws an Error for unknown names and for options that exclude each other.
WantedDevice wanted_device(const DeviceOptions& options);
// Of options that ask for the CPU, the one to name: "--device cpu", "--backend cpu" or "--no-repack".
std::string option_for_cpu(const DeviceOptions& options);

}  // namespace heddle

// What every command that runs a model can be told about where and how it runs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "model/backend.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle {

struct DeviceOptions {
  std::string device = "auto";  // auto, cpu or cuda:N
  std::string backend;          // cpu or reference: a CPU backend by name; empty: the one of the device
  std::string isa = "auto";     // instructions of the cpu backend
  uint32_t threads = 0;         // 0: one per core
  uint32_t context = 0;         // 0: the model's, or less where memory asks for it
  uint32_t cache_tokens = 0;    // of all sequences, less where memory asks for it; 0: one sequence with all its context
  bool many = false;            // without cache_tokens: as many as are of use to many sequences and can be spared
  model::KvFormat kv = model::KvFormat::f16;  // what the KV cache keeps
  bool exact = false;                         // activations are not quantised
  bool deterministic = false;  // a GPU computes a row the same way whatever else is in the batch; a CPU always does
  bool no_selftest = false;    // a GPU is not tried before it is used
  bool trace = false;          // a GPU keeps the times of its kernels
};
// "f16" or "q8"; an Error that says so for anything else.
model::KvFormat kv_named(const std::string& name);
const char* name_of(model::KvFormat kv);

void describe_device(CLI::App& command, DeviceOptions& options);
// The model of a command for which the program's own is enough.
CLI::Option* describe_model(CLI::App& command, std::string& path);

// The number in "cuda:N".
std::optional<uint32_t> cuda_number(const std::string& device);

// Where to run: a GPU, the CPU, or (neither) what is found.
struct WantedDevice {
  bool cpu = false;
  std::optional<uint32_t> gpu;
};
// Throws an Error for names that there are not, and for options that exclude each other.
WantedDevice wanted_device(const DeviceOptions& options);

}  // namespace heddle

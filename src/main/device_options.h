// What every command that runs a model can be told about where and how it runs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

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
  bool exact = false;           // activations are not quantised
  bool no_selftest = false;     // a GPU is not tried before it is used
  bool trace = false;           // a GPU keeps the times of its kernels
};
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

// heddle bench MODEL: the speed of a model on this machine, and its share of the memory bandwidth.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "main/device/running_model.h"

namespace CLI {
class App;
}

namespace heddle {

struct BenchOptions {
  std::string model;
  std::vector<uint32_t> prompts{128, 512};  // lengths
  std::vector<uint32_t> depths{0};          // tokens that are there already
  std::vector<uint32_t> batches{1};         // sequences that are continued at once
  std::vector<uint32_t> threads{0};         // 0: one per core
  uint32_t tokens = 64;                     // generated for each of them
  uint32_t runs = 3;
  bool constrained = false;  // streams must be JSON
  bool json = false;
  std::string html;  // a file for charts; empty: none
  DeviceOptions device;
  std::optional<double> draft_accept;  // share of the draft's proposals that is taken as right: for timing only
};
void describe_bench(CLI::App& command, std::ostream& out, std::ostream& err, int& status);
// The exit status.
int bench_model(const BenchOptions& options, std::ostream& out, std::ostream& err);

// Bytes of weights, in the device's layout, that a step of `rows` tokens reads. Of a mixture, the experts that a token
// uses are taken to be any.
double step_bytes(const RunningModel& running, uint32_t rows);

// Bytes of keys and values that a row at `position` reads.
double cache_bytes(const RunningModel& running, double position);

// Measured bytes per second of reading as many bytes as a step reads, over and over: by `threads` threads from a CPU's
// caches if they fit there; from the memory of a GPU. 0: they fit into a GPU's cache.
double read_bandwidth(const RunningModel& running, uint32_t threads);

}  // namespace heddle

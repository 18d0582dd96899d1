// heddle bench MODEL: how fast a model is on this machine, and how near to what its memory can give.
#pragma once
#include <iosfwd>
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
  bool json = false;
  DeviceOptions device;
};
void describe_bench(CLI::App& command, std::ostream& out, std::ostream& err);
void bench_model(const BenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle

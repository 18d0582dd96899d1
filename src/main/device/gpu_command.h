// heddle devices, selftest, bench kernels and tune: what needs a GPU. Each throws an Error that says why if there is
// none.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "main/device/device_options.h"
#include "proof/case.h"

namespace heddle {

// Every GPU with its properties and the streaming bandwidth measured on it.
void list_devices(std::ostream& out);

struct SelftestOptions {
  uint32_t device = 0;
  std::vector<std::string> kernels;  // empty: all
  proof::Sweep sweep = proof::Sweep::full;
  uint64_t seed = 1;
  uint32_t threads = 0;  // that compute references; 0: one per core
};
// Every kernel over its sweep of shapes against the f64 reference, as a table. False if one is wrong.
bool selftest(const SelftestOptions& options, std::ostream& out, std::ostream& err);

struct BenchKernelsOptions {
  uint32_t device = 0;
  std::vector<std::string> kernels;  // empty: all
  std::string shape;                 // only shapes that contain this text
  bool json = false;
  std::string html;  // a file for charts; empty: none
  uint64_t seed = 1;
};
// Times kernels against the streaming limit measured in the same run. False if a kernel computes wrong results.
bool bench_kernels(const BenchKernelsOptions& options, std::ostream& out, std::ostream& err);

// The fastest shapes of a model's kernels on this GPU, found by timing and kept.
struct TuneOptions {
  std::string model;
  std::vector<uint32_t> batches = {1};  // rows of the steps to tune for
  DeviceOptions device;
};
// Throws an Error if no GPU can run the model.
void tune(const TuneOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle

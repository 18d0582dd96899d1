// heddle devices, selftest and bench kernels: what needs a GPU. Each throws an Error that says why if there is none.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace heddle {

// Every GPU with its properties and the streaming bandwidth measured on it.
void list_devices(std::ostream& out);

struct SelftestOptions {
  uint32_t device = 0;
  std::vector<std::string> kernels;  // none: all
  std::string sweep = "full";        // quick, normal, full
  uint64_t seed = 1;
  uint32_t threads = 0;  // on the host, for the references; 0: as many as there are
};
// Every kernel over its sweep of shapes against the f64 reference, as a table. False if one is wrong.
bool selftest(const SelftestOptions& options, std::ostream& out);

struct BenchKernelsOptions {
  uint32_t device = 0;
  std::vector<std::string> kernels;  // none: all
  std::string shape;                 // only shapes that contain this text
  bool json = false;
  uint64_t seed = 1;
};
// Times kernels against the streaming limit measured in the same run. False if a kernel is not right.
bool bench_kernels(const BenchKernelsOptions& options, std::ostream& out);

}  // namespace heddle

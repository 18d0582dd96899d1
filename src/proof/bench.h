// What is timed, and how: several inputs in rotation so that caches do not help, launched as one graph.
#pragma once
#include "proof/case.h"
#include "proof/gpu_machine.h"

namespace heddle::proof {

struct Bench {
  std::string kernel;           // the name in the catalog
  std::string shape;            // "4096 -> 6144"
  std::string lowest_target;    // "sm_75"
  double bytes = 0, flops = 0;  // moved and computed in one round
  // Makes the inputs and returns what launches round r. Rounds follow each other, so inputs are those of r modulo their
  // number.
  using Round = std::function<void(Machine&, uint32_t)>;
  std::function<Round(Machine&, Random&)> prepare;
};

struct Timing {
  double microseconds = 0;   // of one round: the median of the runs
  double low = 0, high = 0;  // fastest and slowest run
  double start = 0;          // milliseconds to build and assemble the kernels
};
Timing time(const Bench& bench, GpuMachine& machine, uint64_t seed);

// The number of inputs of this size that fill the L2 cache of any known GPU several times over.
uint32_t copies(double bytes);

// Several inputs of `count` normals each, in rotation.
std::vector<ptx::DevicePtr<float>> float_inputs(Machine& m, Random& random, size_t count);
// The same as f16. The bits of the inputs matter for the power that a GPU draws, so they are normal numbers.
std::vector<f16> half_inputs(Random& random, size_t count);
// A bench of a kernel that reads `count` floats: make(machine, random) gives the other arguments, and set(arguments, x)
// sets the input.
template <class Spec, class Make, class Set>
Bench float_bench(std::string kernel, std::string shape, const Spec& spec, size_t count, double bytes, double flops,
                  Make make, Set set) {
  auto prepare = [=](Machine& m, Random& random) -> Bench::Round {
    const auto in = float_inputs(m, random, count);
    const typename Spec::Args args = make(m, random);
    return [=](Machine& now, uint32_t r) {
      typename Spec::Args a = args;
      set(a, in[r % in.size()]);
      now.launch(spec, a);
    };
  };
  return {std::move(kernel), std::move(shape), std::string(Spec::lowest_target), bytes, flops, prepare};
}

// Bytes per second that a plain read of memory reaches.
double streaming_limit(GpuMachine& machine);

std::vector<Bench> all_benches();

}  // namespace heddle::proof

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

// How many inputs of so many bytes it takes to fill the L2 cache of any GPU we know of several times.
uint32_t copies(double bytes);

// Bytes per second that a plain read of memory reaches.
double streaming_limit(GpuMachine& machine);

void add_stream_benches(std::vector<Bench>& all);
void add_product_benches(std::vector<Bench>& all);
void add_attention_benches(std::vector<Bench>& all);
void add_prompt_benches(std::vector<Bench>& all);
void add_layer_benches(std::vector<Bench>& all);
std::vector<Bench> all_benches();

}  // namespace heddle::proof

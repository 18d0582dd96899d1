// heddle bench serve-sim MODEL: throughput and latency of many requests at once on this machine, without a network.
#pragma once
#include <iosfwd>
#include <string>

#include "main/device/running_model.h"
#include "main/serve/engine_options.h"

namespace CLI {
class App;
}

namespace heddle {

struct BenchServeOptions {
  std::string model;
  std::string prompts = "16-128", answers = "16-64";  // lengths; answers: completions
  uint32_t requests = 32;
  uint32_t at_once = 0;  // 0: as they arrive
  double rate = 0;       // per second; 0: all at once
  uint32_t shared = 0;   // tokens that all prompts begin with
  std::string long_one;
  uint32_t turns = 1;         // of each conversation
  uint32_t cache_tokens = 0;  // 0: enough for all that run at once
  uint64_t seed = 1;
  bool json = false;
  std::string html;  // a file for charts; empty: none
  EngineChoices engine;
  DeviceOptions device;
};
void describe_bench_serve(CLI::App& bench, std::ostream& out, std::ostream& err);
void bench_serve(const BenchServeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle

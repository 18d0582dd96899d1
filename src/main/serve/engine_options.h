// Options of every command that runs an engine.
#pragma once
#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "main/serve/kv_tiers.h"

namespace CLI {
class App;
}

namespace heddle {

struct EngineChoices {
  double max_stall = 200;  // ms
  bool no_prefix_cache = false;
  std::string speculation = "auto";
  uint32_t rows = 0;  // maximum tokens in a batch; 0: the default of the device
  KvTierChoices kv;
};
void describe_engine(CLI::App& command, EngineChoices& choices);

// Throws an Error that names the option.
engine::EngineOptions engine_options(const EngineChoices& choices);

}  // namespace heddle

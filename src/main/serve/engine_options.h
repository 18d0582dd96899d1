// What every command that runs an engine can be told about it.
#pragma once
#include <cstdint>
#include <string>

#include "engine/engine.h"

namespace CLI {
class App;
}

namespace heddle {

struct EngineChoices {
  double max_stall = 50;  // ms
  bool no_prefix_cache = false;
  std::string speculation = "auto";
  uint32_t rows = 0;  // of a batch; 0: as usual on the device
};
void describe_engine(CLI::App& command, EngineChoices& choices);

// Throws an Error that names the option.
engine::EngineOptions engine_options(const EngineChoices& choices);

}  // namespace heddle

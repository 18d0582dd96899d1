// What a server has and is told to do: for people at its start, and as JSON for whoever asks it later.
#pragma once
#include <string>

#include "main/device/running_model.h"
#include "main/serve/serve_command.h"

namespace heddle {

// What is known when the model is loaded.
struct ServedFacts {
  const ServeOptions& options;
  const RunningModel& running;
  std::string name;     // what clients call the model
  std::string address;  // "http://127.0.0.1:8080"
  uint32_t context = 0;
  double load_seconds = 0;

  uint64_t kv_tokens() const { return uint64_t(running.limits.kv_blocks) * running.limits.block_tokens; }
};

std::string serve_lines(const ServedFacts& facts);   // several, each with its end
std::string serve_config(const ServedFacts& facts);  // a JSON object

}  // namespace heddle

// The structs that programs fill: their defaults, and what they mean to the rest of heddle.
#pragma once
#include <heddle.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/sampling/sampling.h"
#include "grammar/source.h"
#include "main/device/device_options.h"

namespace heddle::library {

struct OpenOptions {
  DeviceOptions device;
  void (*log)(void*, const char*) = nullptr;
  void* log_data = nullptr;
};
// NULL: the defaults. An Error names the option that is wrong.
OpenOptions read_options(const heddle_model_options* options);

struct NamedGrammar {
  const char* name;  // of the field
  grammar::Source source;
};
struct GenerationRequest {
  std::optional<std::string> prompt, messages;  // exactly one of these and tokens
  std::vector<uint32_t> tokens;
  std::string variables;
  bool parse_special = false;
  std::vector<std::string> stop;
  std::optional<NamedGrammar> grammar;
  engine::Sampling sampling;
  uint32_t max_tokens = 0;
};
GenerationRequest read_request(const heddle_request* request);

}  // namespace heddle::library

// heddle inspect, for commands that show more.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

#include "model/backend.h"

namespace heddle {

struct InspectOptions {
  std::string path;
  bool tensors = false;  // list each of them
  bool full = false;     // long values whole
  bool json = false;
  uint32_t context = 0;  // tokens of the KV cache; 0: the context the model was trained for
  model::KvFormat kv = model::KvFormat::f16;
};

void inspect(const InspectOptions& options, std::ostream& out);

}  // namespace heddle

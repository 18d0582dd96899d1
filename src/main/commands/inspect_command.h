// heddle inspect: what a model file says of itself and what it needs.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

namespace heddle {

struct InspectOptions {
  std::string path;
  bool tensors = false;  // each of them, not only their sum by type
  bool full = false;     // long values whole
  bool json = false;
  uint64_t context = 0;  // tokens that the KV cache is to hold; 0: the model's own context
};
void inspect(const InspectOptions& options, std::ostream& out);

}  // namespace heddle

// The manifest of a model in an Ollama registry, and in Ollama's store: which blob is the GGUF file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace heddle::store {

struct Manifest {
  std::string sha256;   // of the GGUF file; empty: there is none that can be run
  uint64_t bytes = 0;   // of it
  std::string problem;  // why there is none
};
// Throws an Error that begins with `where` for what is no manifest, and for digests that are no SHA-256.
Manifest read_manifest(std::string_view text, std::string_view where);

}  // namespace heddle::store

// Models of real shapes with random weights, to try loading, memory and speed without the real weights.
#pragma once
#include <string>
#include <vector>

#include "formats/convert.h"

namespace heddle::formats {

struct SynthShape {
  std::string name;    // "llama-3.2-1b"
  std::string config;  // its config.json
};
const std::vector<SynthShape>& synth_shapes();

struct SynthOptions {
  std::string shape;
  FileType type = FileType::q4_k_m;
  uint64_t seed = 1;
  std::function<void(const Progress&)> progress;
  OutputFile::Existing existing = OutputFile::Existing::replace;
  uint64_t layers = 0;  // the first of them alone; 0: all
};

// Writes the model: metadata and tensors of the shape, norms and scales of 1, weights that keep the size of
// activations, and an invented vocabulary that can spell any text. The same options give the same file.
Written write_synthetic(const SynthOptions& options, const std::filesystem::path& path);

}  // namespace heddle::formats

// heddle convert, quantize and synth: the commands that write model files.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>

#include "formats/convert.h"

namespace CLI {
class App;
}

namespace heddle {

struct WriteModelOptions {
  std::string model, output, type;
  bool allow_requantize = false;
  size_t threads = 0;
  bool force = false;  // replaces a file that is there already, but never one that the model is read from
};

// A folder of safetensors with its config.json -> a GGUF file. The type "auto" keeps the 16 or 32 bits of the weights.
void convert_model(const WriteModelOptions& options, std::ostream& out, std::ostream& err);

// A GGUF file or such a folder -> a GGUF file of another type.
void quantize_model(const WriteModelOptions& options, std::ostream& out, std::ostream& err);

struct SynthModelOptions {
  std::string shape, type = "Q4_K_M", output;
  uint64_t seed = 1;
  bool list = false;
  bool force = false;  // the same
};
void synthesize_model(const SynthModelOptions& options, std::ostream& out, std::ostream& err);

// Adds the commands to `program`; they run while it parses.
void describe_model_files(CLI::App& program, std::ostream& out, std::ostream& err);

}  // namespace heddle

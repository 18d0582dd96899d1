// heddle run and heddle logits: a text continued, and what a model makes of given tokens.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>

#include "main/commands/sampling_options.h"
#include "main/device/running_model.h"

namespace CLI {
class App;
}

namespace heddle {

struct RunOptions {
  std::string model;
  std::optional<std::string> prompt;  // without one, standard input
  uint32_t tokens = 0;                // at most; 0: until the model ends or the context is full
  bool chat = false;                  // the text is a message: the model's chat template is put around it
  std::string system;                 // with `chat`
  std::string trace;                  // a file for the times of a GPU's kernels; empty: none
  SamplingOptions sampling;
  DeviceOptions device;
};
void describe_run(CLI::App& program, std::istream& in, std::ostream& out, std::ostream& err, int& status);
// Streams the continuation to `out`; ends with a line of figures on `err`. The exit status.
int run_model(const RunOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

struct LogitsOptions {
  std::string model, ids, out;
  DeviceOptions device;
};
// A safetensors file with one tensor, `logits`: f32, a row per id.
void write_logits(const LogitsOptions& options, std::ostream& out, std::ostream& err);

}  // namespace heddle

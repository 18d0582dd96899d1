// heddle run, heddle logits, and heddle without arguments: a text continued, the logits of given tokens, a story.
#pragma once
#include <iosfwd>
#include <optional>
#include <span>
#include <string>

#include "main/commands/constraint_options.h"
#include "main/commands/sampling_options.h"
#include "main/device/running_model.h"

namespace heddle {

struct RunOptions {
  std::string model;
  std::optional<std::string> prompt;  // unset: standard input
  uint32_t tokens = 0;                // maximum to generate; 0: until the model ends or the context is full
  bool chat = false;                  // send the text as a message, in the model's chat template
  std::string system;                 // with `chat`
  bool parse_special = false;         // with `chat`: the message may write control tokens
  std::string trace;                  // file for the times of a GPU's kernels; empty: no trace
  SamplingOptions sampling;
  ConstraintOptions constraint;
  DeviceOptions device;
};
// Streams the completion to `out` and ends with a line about its speed on `err`. The exit status.
int run_model(const RunOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

struct LogitsOptions {
  std::string model, ids, out;
  DeviceOptions device;
};
// A safetensors file with one tensor, `logits`: f32, a row per id.
int write_logits(const LogitsOptions& options, std::ostream& out, std::ostream& err);

// The times of a GPU's kernels: a file for chrome://tracing or ui.perfetto.dev, and a table with a line per phase, the
// longest first.
std::string trace_json(std::span<const model::KernelTime> times);
std::string trace_table(std::span<const model::KernelTime> times);

}  // namespace heddle

// A model with its words and the device it runs on: from a path to something that can be fed tokens.
#pragma once
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "model/backend.h"
#include "model/session.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle {

// What every command that runs a model can be told.
struct DeviceOptions {
  std::string backend = "cpu";  // cpu or reference
  std::string isa = "auto";     // instructions of the cpu backend
  uint32_t threads = 0;         // 0: one per core
  uint32_t context = 0;         // 0: the model's, or less where memory asks for it
  bool exact = false;           // activations are not quantised
};
void describe_device(CLI::App& command, DeviceOptions& options);
// The model of a command for which the program's own is enough.
CLI::Option* describe_model(CLI::App& command, std::string& path);

struct RunningModel {
  model::Model model;
  std::optional<text::Tokenizer> tokenizer;  // none where the file has none
  std::string chat_template;
  model::Limits limits;
  std::unique_ptr<model::Backend> backend;

  const text::Tokenizer& words() const;  // an Error if there is none
  model::Session session() const { return {model, *backend, limits}; }
};
// An empty path is the program's own model. `rows`: the most tokens of one batch. Says on `log`, where one is given,
// how far loading is (if that is a terminal) and if the context had to be cut. Throws an Error before weights are read
// if memory is too small.
std::unique_ptr<RunningModel> open_running(const std::string& path, const DeviceOptions& options,
                                           std::ostream* log = nullptr, uint32_t rows = 512);

// What the backend that `options` ask for would take.
model::Memory memory_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits);
// The largest context up to `most`, a multiple of 32 or `most` itself, that takes no more than `available` bytes; 0 if
// none does.
uint32_t largest_context(const model::Model& model, const DeviceOptions& options, uint32_t most, uint32_t rows,
                         uint64_t available);

}  // namespace heddle

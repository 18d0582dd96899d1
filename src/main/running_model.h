// A model with its words and the device it runs on: from a path to something that can be fed tokens.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "model/backend.h"
#include "model/session.h"
#include "text/tokenizer.h"

namespace CLI {
class App;
}

namespace heddle {

// What every command that runs a model can be told.
struct DeviceOptions {
  std::string backend = "cpu";  // cpu or reference
  std::string isa = "auto";     // instructions of the cpu backend
  uint32_t threads = 0;         // 0: one per core
  uint32_t context = 0;         // 0: the model's
  bool exact = false;           // activations are not quantised
};
void describe_device(CLI::App& command, DeviceOptions& options);

struct RunningModel {
  model::Model model;
  std::optional<text::Tokenizer> tokenizer;  // none where the file has none
  std::string chat_template;
  model::Limits limits;
  std::unique_ptr<model::Backend> backend;

  const text::Tokenizer& words() const;  // an Error if there is none
  model::Session session() const { return {model, *backend, limits}; }
};
// `rows`: the most tokens of one batch.
std::unique_ptr<RunningModel> open_running(const std::string& path, const DeviceOptions& options, uint32_t rows = 512);

}  // namespace heddle

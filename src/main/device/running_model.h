// A model with its words and the device it runs on: from a path to something that can be fed tokens.
#pragma once
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "main/device/device_options.h"
#include "model/backend.h"
#include "text/tokenizer.h"

namespace heddle {

struct RunningModel {
  model::Model model;
  std::optional<text::Tokenizer> maybe_tokenizer;  // none where the file has none
  std::string chat_template;
  model::Limits limits;
  std::optional<uint32_t> gpu;  // the number of the GPU it runs on; none: the CPU
  std::unique_ptr<model::Backend> backend;

  const text::Tokenizer& tokenizer() const;  // an Error if there is none
};
// An empty path is the program's own model. `rows`: the most tokens of one batch; 0: 512 on a CPU, 2048 on a GPU. Says
// on `log`, where one is given, which device was found, how far loading is (if that is a terminal) and if the context
// had to be cut. Throws an Error before weights are read if memory is too small, and if a GPU that was asked for cannot
// run the model.
std::unique_ptr<RunningModel> open_running(const std::string& path, const DeviceOptions& options,
                                           std::ostream* log = nullptr, uint32_t rows = 0);

}  // namespace heddle

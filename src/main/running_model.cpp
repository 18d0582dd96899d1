// Opens the file once, for the weights and for the words.
#include "main/running_model.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cpu/cpu.h"
#include "cpu/reference.h"
#include "main/open_model.h"
#include "main/vocabulary_keys.h"
#include "model/load.h"

namespace heddle {

void describe_device(CLI::App& command, DeviceOptions& options) {
  command.add_option("--ctx", options.context, "Tokens the model may see at once; without it, what it was trained for")
      ->type_name("N");
  command.add_option("--threads", options.threads, "0: one per core")->type_name("N");
  command
      .add_option("--backend", options.backend,
                  "cpu (the default), or reference: plain f32, slow, what others are held to")
      ->type_name("NAME");
  command.add_option("--cpu-isa", options.isa, "Instructions of the cpu backend: auto, or one that this machine has")
      ->type_name("NAME");
  command.add_flag("--exact", options.exact, "Do not quantise activations");
}

const text::Tokenizer& RunningModel::words() const {
  if (!tokenizer) throw Error("{}: the model has no tokenizer", model.name);
  return *tokenizer;
}

std::unique_ptr<RunningModel> open_running(const std::string& path, const DeviceOptions& options, uint32_t rows) {
  if (options.backend != "cpu" && options.backend != "reference")
    throw Error("--backend: expected cpu or reference, found \"{}\"", options.backend);
  formats::Checkpoint checkpoint = formats::open_checkpoint(path);
  auto running = std::make_unique<RunningModel>();
  if (has_vocabulary(checkpoint)) running->tokenizer.emplace(open_tokenizer(checkpoint));
  running->chat_template = checkpoint.chat_template();
  running->model = model::load(std::move(checkpoint), {.context = options.context});
  running->limits = model::limits_for(running->model.context, rows);
  running->backend = options.backend == "reference"
                         ? cpu::make_reference(running->model, running->limits)
                         : cpu::make_cpu(running->model, running->limits,
                                         {.threads = options.threads, .isa = options.isa, .exact = options.exact});
  return running;
}

}  // namespace heddle

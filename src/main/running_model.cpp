// Opens the file once, for the weights and for the words.
#include "main/running_model.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include "cpu/reference.h"
#include "main/open_model.h"
#include "main/vocabulary_keys.h"
#include "model/load.h"

namespace heddle {
namespace {

constexpr uint32_t least_context = 512;  // below it nobody is served by a cut that was not asked for

cpu::Options cpu_options(const DeviceOptions& options) {
  return {.threads = options.threads, .isa = options.isa, .exact = options.exact};
}

std::string needs_text(const model::Memory& memory, uint32_t context) {
  return fmt::format("{} (weights {}, KV cache of {} tokens {}, workspace {})", bytes_text(double(memory.total())),
                     bytes_text(double(memory.weights)), context, bytes_text(double(memory.kv)),
                     bytes_text(double(memory.workspace)));
}

// The context to run with: what was asked for or an Error, or the most that fits.
uint32_t fitting_context(const model::Model& model, const DeviceOptions& options, uint32_t rows, std::ostream* log) {
  const uint64_t available = available_memory();
  const uint32_t largest = largest_context(model, options, model.context, rows, available);
  if (largest == model.context || available == 0) return model.context;
  const bool asked = options.context != 0;
  if (asked || largest < least_context) {
    const model::Memory memory = memory_for(model, options, model::limits_for(model.context, rows));
    throw Error("{}: too little memory: expected {} to be free, found {}; {}", model.name,
                needs_text(memory, model.context), bytes_text(double(available)),
                largest ? fmt::format("--ctx {} would fit", largest) : "a shorter context does not help");
  }
  if (log)
    *log << fmt::format("the context is {} tokens of {}: more does not fit into memory\n", largest, model.context);
  return largest;
}

// "loading 43 %" on a terminal, gone when done. Quick loads show nothing.
class Progress {
 public:
  explicit Progress(const std::ostream* log) : shows_(log == &std::cerr && isatty(STDERR_FILENO)) {}
  ~Progress() {
    if (percent_ >= 0) std::cerr << "\r\033[K" << std::flush;
  }
  void operator()(uint64_t done, uint64_t all) {
    if (!shows_ || seconds_since(start_) < 0.3) return;
    const int percent = int(done * 100 / std::max<uint64_t>(all, 1));
    if (percent != percent_) std::cerr << fmt::format("\rloading {} %", percent) << std::flush;
    percent_ = percent;
  }

 private:
  bool shows_;
  int percent_ = -1;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

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

CLI::Option* describe_model(CLI::App& command, std::string& path) {
  return command
      .add_option("model", path, "A GGUF file or a folder of safetensors; without it, weft, which is in the program")
      ->type_name("");
}

const text::Tokenizer& RunningModel::words() const {
  if (!tokenizer) throw Error("{}: the model has no tokenizer", model.name);
  return *tokenizer;
}

model::Memory memory_for(const model::Model& model, const DeviceOptions& options, const model::Limits& limits) {
  model::Memory memory = cpu::memory_needed(model, limits, cpu_options(options));
  if (options.backend == "reference") memory.kv *= 2;  // f32
  return memory;
}

uint32_t largest_context(const model::Model& model, const DeviceOptions& options, uint32_t most, uint32_t rows,
                         uint64_t available) {
  const auto fits = [&](uint32_t context) {
    return memory_for(model, options, model::limits_for(context, rows)).total() <= available;
  };
  if (fits(most)) return most;
  uint32_t low = 0, high = most / 32 + 1;  // in blocks: low fits or is 0, high does not
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (fits(middle * 32) ? low : high) = middle;
  }
  return low * 32;
}

std::unique_ptr<RunningModel> open_running(const std::string& path, const DeviceOptions& options, std::ostream* log,
                                           uint32_t rows) {
  if (options.backend != "cpu" && options.backend != "reference")
    throw Error("--backend: expected cpu or reference, found \"{}\"", options.backend);
  formats::Checkpoint checkpoint = open_model(path);
  auto running = std::make_unique<RunningModel>();
  if (has_vocabulary(checkpoint)) running->tokenizer.emplace(open_tokenizer(checkpoint));
  running->chat_template = checkpoint.chat_template();
  running->model = model::load(std::move(checkpoint), {.context = options.context});
  const uint32_t context = fitting_context(running->model, options, rows, log);
  if (context != running->model.context)  // rotations may depend on it
    running->model = model::load(open_model(path), {.context = context});
  running->limits = model::limits_for(running->model.context, rows);
  if (options.backend == "reference") {
    running->backend = cpu::make_reference(running->model, running->limits);
    return running;
  }
  Progress progress(log);
  cpu::Options with_progress = cpu_options(options);
  with_progress.progress = [&progress](uint64_t done, uint64_t all) { progress(done, all); };
  running->backend = cpu::make_cpu(running->model, running->limits, with_progress);
  return running;
}

}  // namespace heddle

// The search is src/gpu's; here it gets a model and its lines are printed.
#include "main/device/tune_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "cuda/device.h"
#include "gpu/gpu.h"
#include "main/device/open_model.h"
#include "model/load.h"

namespace heddle {

void describe_tune(CLI::App& program, std::ostream& out) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* command = program.add_subcommand(
      "tune", "Find the fastest shapes of a model's kernels on this GPU, and keep them for every later run");
  describe_model(*command, options->model);
  command->add_option("--batch", options->batches, "Sequences decoded together, 1 to 8; several: 1,2,4,8")
      ->delimiter(',')
      ->type_name("N");
  command->add_option("--device", options->device.device, "auto (the first GPU that can), or cuda:N")
      ->type_name("NAME");
  command->add_flag("--exact", options->device.exact, "For steps that do not quantise activations");
  command->callback([options, &out] { tune(*options, out); });
}

void tune(const TuneOptions& options, std::ostream& out) {
  const WantedDevice wanted = wanted_device(options.device);
  if (wanted.cpu) throw Error("tune is for GPUs: expected --device cuda:N, found \"{}\"", options.device.device);
  std::optional<uint32_t> device = wanted.gpu;
  for (const cuda::DeviceInfo& info : device ? std::vector<cuda::DeviceInfo>() : cuda::devices()) {
    try {
      gpu::expect_capable(info);
      device = info.ordinal;
      break;
    } catch (const Error& error) {
      out << error.what() << "\n";
    }
  }
  if (!device) throw Error("no GPU that can run models");
  const auto start = Clock::now();
  const model::Model model = model::load(open_model(options.model), {});
  const gpu::Tuned tuned = gpu::tune(model, {.device = *device, .exact = options.device.exact}, options.batches,
                                     [&out](const std::string& line) { out << line << std::endl; });
  out << fmt::format("{} kernels, {} shapes tried in {:.1f} s: {:.1f} -> {:.1f} us for one step of each kind\n",
                     tuned.kernels, tuned.tried, seconds_since(start), tuned.before * 1e6, tuned.after * 1e6);
  if (tuned.file.empty())
    out << "not kept: the cache is off, or its folder cannot be written\n";
  else
    out << fmt::format("kept in {}\n", tuned.file);
}

}  // namespace heddle

// Counts the bytes, asks each device what it has left, and compares.
#include "main/plan_command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "cuda/context.h"
#include "main/open_model.h"
#include "model/load.h"

namespace heddle {
namespace {

struct Device {
  std::string name, what;
  uint64_t free = 0;
  model::Memory needed;
  uint32_t largest = 0;  // context
  bool fits() const { return needed.total() <= free; }
};

Device plan_cpu(const model::Model& model, uint32_t most, const PlanOptions& options) {
  Device device{"cpu", "this machine's memory", available_memory()};
  device.needed = memory_for(model, options.device, model::limits_for(model.context, options.rows));
  device.largest = largest_context(model, options.device, most, options.rows, device.free);
  return device;
}

// The GPUs, as far as they can be asked. Models do not run there yet, so their workspace is what the CPU's is.
std::vector<Device> plan_gpus(const Device& cpu, const model::Model& model, uint32_t most, const PlanOptions& options,
                              std::string& none) {
  std::vector<Device> found;
  try {
    for (const cuda::DeviceInfo& info : cuda::devices()) {
      const cuda::Context context(info.ordinal);
      Device device{fmt::format("cuda:{}", info.ordinal), info.name, context.memory().free, cpu.needed};
      device.largest = largest_context(model, options.device, most, options.rows, device.free);
      found.push_back(device);
    }
  } catch (const Error& error) {
    none = error.what();
  }
  return found;
}

void print_table(const std::vector<Device>& devices, std::ostream& out) {
  const auto text = [](uint64_t bytes) { return bytes_text(double(bytes)); };
  out << fmt::format("{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}\n", "device", "weights", "KV cache", "workspace",
                     "needed", "free");
  for (const Device& d : devices)
    out << fmt::format("{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}; {} ({})\n", d.name, text(d.needed.weights),
                       text(d.needed.kv), text(d.needed.workspace), text(d.needed.total()), text(d.free),
                       d.fits() ? "fits" : fmt::format("does not fit: {} too little", text(d.needed.total() - d.free)),
                       d.largest ? fmt::format("context up to {}", d.largest) : "no context would", d.what);
}

void print_json(const std::vector<Device>& devices, const model::Model& model, const std::string& none,
                std::ostream& out) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Device& d : devices)
    list.push_back({{"device", d.name},
                    {"description", d.what},
                    {"weights_bytes", d.needed.weights},
                    {"kv_bytes", d.needed.kv},
                    {"workspace_bytes", d.needed.workspace},
                    {"needed_bytes", d.needed.total()},
                    {"free_bytes", d.free},
                    {"fits", d.fits()},
                    {"largest_context", d.largest}});
  nlohmann::ordered_json json{{"model", model.name}, {"context", model.context}, {"devices", list}};
  if (!none.empty()) json["no_gpu"] = none;
  out << json.dump(2) << '\n';
}

}  // namespace

void describe_plan(CLI::App& program, std::ostream& out, int& status) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = program.add_subcommand("plan", "The memory a model will take, and whether it fits");
  describe_model(*command, options->model);
  command->add_option("--rows", options->rows, "The most tokens of one batch")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "Print JSON");
  describe_device(*command, options->device);
  command->callback([options, &out, &status] { status = plan(*options, out) ? 0 : 1; });
}

bool plan(const PlanOptions& options, std::ostream& out) {
  const model::Model model = model::load(open_model(options.model), {.context = options.device.context});
  const uint32_t most = options.device.context ? model::load(open_model(options.model)).context : model.context;
  std::vector<Device> devices{plan_cpu(model, std::max(most, model.context), options)};
  std::string none;
  for (Device& device : plan_gpus(devices[0], model, std::max(most, model.context), options, none))
    devices.push_back(std::move(device));
  if (options.json) {
    print_json(devices, model, none, out);
  } else {
    out << fmt::format("{}: context of {} tokens, batches of up to {}\n", model.name, model.context, options.rows);
    print_table(devices, out);
    out << (none.empty() ? "Models run on the CPU in this version; GPUs are shown for planning.\n"
                         : fmt::format("no GPU: {}\n", none));
  }
  return std::any_of(devices.begin(), devices.end(), [](const Device& d) { return d.fits(); });
}

}  // namespace heddle

// heddle plan: the memory that a model needs on each device, counted without loading it, and what is free there.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/memory.h"
#include "cuda/context.h"
#include "gpu/gpu.h"
#include "main/commands/commands.h"
#include "main/device/device_memory.h"
#include "main/device/open_model.h"
#include "model/load.h"

namespace heddle {
namespace {

struct PlanOptions {
  std::string model;
  uint32_t rows = 0;  // maximum tokens in a batch; 0: the default of each device
  bool json = false;
  DeviceOptions device;
};

constexpr uint32_t max_context = 1 << 30;  // tokens; more are not looked for

struct Device {
  std::string name, what;
  uint64_t free = 0;
  model::Memory needed;
  uint32_t largest = 0;  // context
  std::string problem;   // why it cannot run the model at all; empty: it can
  bool fits() const { return problem.empty() && needed.total() <= free; }
};

class Plan {
 public:
  explicit Plan(const PlanOptions& options)
      : options_(options),
        model(model::load(open_model(options.model), {.context = options.device.context})),
        trained(trained_context(open_model(options.model))) {
    const WantedDevice wanted = wanted_device(options.device);
    if (!wanted.gpu) {
      Device& cpu = devices.emplace_back(Device{"cpu", "this machine's memory", available_memory()});
      count(cpu, nullptr);
    }
    if (wanted.gpu) {
      add_gpu(cuda::Context(*wanted.gpu));
      if (!devices.back().problem.empty()) throw Error("{}", devices.back().problem);
    } else if (!wanted.cpu) {
      add_gpus();
    }
  }

 private:
  void count(Device& device, const cuda::DeviceInfo* gpu) {
    const uint32_t rows = options_.rows ? options_.rows : gpu ? gpu_rows : cpu_rows;
    device.needed = memory_for(model, options_.device, limits_for(options_.device, model.context, rows), gpu);
    device.largest = largest_context(model, options_.device, max_context, rows, device.free, gpu);
  }
  void add_gpu(const cuda::Context& context) {
    const cuda::DeviceInfo& info = context.info();
    Device device{fmt::format("cuda:{}", info.ordinal), info.name, usable_memory(context.memory().free)};
    try {
      gpu::expect_capable(info);
      count(device, &info);
    } catch (const Error& error) {
      device.problem = error.what();
    }
    devices.push_back(device);
  }
  void add_gpus() {
    try {
      for (const cuda::DeviceInfo& info : cuda::devices()) add_gpu(cuda::Context(info.ordinal));
    } catch (const Error& error) {
      no_gpu = error.what();
    }
  }

  const PlanOptions& options_;

 public:
  const model::Model model;
  const uint64_t trained;  // tokens of context; 0: the file does not say
  std::vector<Device> devices;
  std::string no_gpu;  // the reason, where GPUs were looked for and there is none
};

void print_plan_table(const std::vector<Device>& devices, std::ostream& out) {
  const auto text = [](uint64_t bytes) { return bytes_text(double(bytes)); };
  out << fmt::format("{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}\n", "device", "weights", "KV cache", "workspace",
                     "needed", "free");
  for (const Device& d : devices) {
    if (!d.problem.empty()) {
      out << fmt::format("{:<8}  cannot run it: {}\n", d.name, d.problem);
      continue;
    }
    out << fmt::format("{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}; {} ({})\n", d.name, text(d.needed.weights),
                       text(d.needed.kv), text(d.needed.workspace), text(d.needed.total()), text(d.free),
                       d.fits() ? "fits" : fmt::format("does not fit: {} too little", text(d.needed.total() - d.free)),
                       d.largest ? fmt::format("contexts up to {} tokens fit", d.largest) : "no context fits", d.what);
  }
}

void print_plan_json(const Plan& plan, model::KvFormat kv, std::ostream& out) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Device& d : plan.devices) {
    list.push_back({{"device", d.name},
                    {"description", d.what},
                    {"weights_bytes", d.needed.weights},
                    {"kv_bytes", d.needed.kv},
                    {"workspace_bytes", d.needed.workspace},
                    {"needed_bytes", d.needed.total()},
                    {"free_bytes", d.free},
                    {"fits", d.fits()},
                    {"largest_context", d.largest}});
    if (!d.problem.empty()) list.back()["problem"] = d.problem;
  }
  nlohmann::ordered_json json{{"model", plan.model.name},
                              {"context", plan.model.context},
                              {"trained_context", plan.trained},
                              {"kv", name_of(kv)},
                              {"devices", list}};
  if (!plan.no_gpu.empty()) json["no_gpu"] = plan.no_gpu;
  out << json.dump(2) << '\n';
}

// False if the model fits on no device.
bool print_plan(const PlanOptions& options, std::ostream& out) {
  const Plan plan(options);
  if (options.json) {
    print_plan_json(plan, options.device.kv, out);
  } else {
    out << fmt::format("{}: context of {} tokens ({}), KV cache in {}\n", plan.model.name, plan.model.context,
                       plan.trained ? fmt::format("trained for {}", plan.trained) : "trained for an unknown one",
                       name_of(options.device.kv));
    print_plan_table(plan.devices, out);
    if (!plan.no_gpu.empty()) out << fmt::format("no GPU: {}\n", plan.no_gpu);
  }
  return std::any_of(plan.devices.begin(), plan.devices.end(), [](const Device& d) { return d.fits(); });
}

}  // namespace

void describe_plan(CLI::App& program, std::ostream& out, int& status) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = program.add_subcommand("plan", "Show the memory a model needs and whether it fits");
  describe_model(*command, options->model);
  command->add_option("--rows", options->rows, "Maximum tokens in a batch; 0: 512 on the CPU, 2048 on a GPU")
      ->type_name("N");
  command->add_flag("--json", options->json, "Print JSON");
  describe_device(*command, options->device);
  command->callback([options, &out, &status] { status = print_plan(*options, out) ? 0 : 1; });
}

}  // namespace heddle

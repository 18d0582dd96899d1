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
#include "main/device/split_choice.h"
#include "main/serve/kv_tiers.h"
#include "model/load.h"

namespace heddle {
namespace {

struct PlanOptions {
  std::string model;
  uint32_t rows = 0;  // maximum tokens in a batch; 0: the default of each device
  bool json = false;
  DeviceOptions device;
  KvTierChoices kv;
};

constexpr uint32_t max_context = 1 << 30;  // tokens; more are not looked for

struct Device {
  std::string name, what;
  uint64_t free = 0;
  model::Memory needed;
  uint32_t largest = 0;                   // context
  std::string problem;                    // why it cannot run the model at all; empty: it can
  std::optional<SplitChoice> split = {};  // of a model that does not fit, or if one was asked for
  std::string no_split = {};              // why there is none
  bool fits() const { return problem.empty() && needed.total() <= free; }
  bool runs() const { return split || (fits() && no_split.empty()); }
};

class Plan {
 public:
  explicit Plan(const PlanOptions& options)
      : options_(options),
        model(model::load(open_model(options.model),
                          {.context = options.device.context, .next_head = options.device.mtp})),
        trained(trained_context(open_model(options.model))) {
    const WantedDevice wanted = wanted_device(options.device);
    expect_splittable(model, options.device);
    if (options.device.mtp && !model::next_head(model))
      throw Error(
          "--mtp: expected a model with a head for multi-token prediction that heddle computes, found none in {}",
          options.model);
    if (!wanted.gpu) {
      Device& cpu = devices.emplace_back(Device{"cpu", "this machine's memory", usable_on_cpu(options_.device)});
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
    const uint32_t rows = options_.rows ? options_.rows : gpu ? gpu_rows : cpu_rows(options_.device);
    device.needed = memory_for(model, options_.device, limits_for(model, options_.device, model.context, rows), gpu);
    device.largest = largest_context(model, options_.device, max_context, rows, device.free, gpu);
  }
  void add_gpu(const cuda::Context& context) {
    const cuda::DeviceInfo& info = context.info();
    Device device{fmt::format("cuda:{}", info.ordinal), info.name,
                  usable_on_gpu(options_.device, context.memory().free)};
    try {
      gpu::expect_capable(info);
      count(device, &info);
      if ((!device.fits() && !options_.device.mtp) || asks_for_split(options_.device)) split(device, context);
    } catch (const Error& error) {
      device.problem = error.what();
    }
    devices.push_back(device);
  }
  void split(Device& device, const cuda::Context& context) const {
    if (options_.device.gpu_layers == 0u) return;  // all of it is the CPU's
    const SplitRoom room{.gpu = context.info(),
                         .gpu_bytes = device.free,
                         .cpu_bytes = usable_on_cpu(options_.device),
                         .rows = options_.rows};
    try {
      device.split = choose_split(model, options_.device, room, measure_rates(model, options_.device, context));
    } catch (const DoesNotSplit& error) {
      device.no_split = error.what();
    }
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
    out << fmt::format(
        "{:<8}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {}{}; {} ({})\n", d.name, text(d.needed.weights),
        text(d.needed.kv), text(d.needed.workspace), text(d.needed.total()), text(d.free),
        (d.needed.states ? fmt::format("with {} of recurrent states; ", text(d.needed.states)) : "") +
            (d.needed.in_file ? fmt::format("{} of weights stay in the file; ", text(d.needed.in_file)) : ""),
        d.fits() ? "fits" : fmt::format("does not fit: {} too little", text(d.needed.total() - d.free)),
        d.largest ? fmt::format("contexts up to {} tokens fit", d.largest) : "no context fits", d.what);
    if (d.split)
      out << fmt::format("          split: {}: {} of {}, {} of the CPU's, context of {} tokens\n", d.split->text,
                         text(d.split->on_gpu.total()), d.name, text(d.split->on_cpu.total()), d.split->context);
    if (!d.no_split.empty()) out << fmt::format("          no split: {}\n", d.no_split);
  }
}

// Of the KV cache, in all layers, and in those with a window.
struct TokenBytes {
  uint64_t all = 0, windows = 0;
};
TokenBytes token_bytes(const model::Model& model, model::KvFormat kv) {
  TokenBytes bytes;
  model::each_kv_cache(model, [&](const model::Attention& a, bool of_windows) {
    bytes.all += model::kv_bytes(a, kv);
    if (of_windows) bytes.windows += model::kv_bytes(a, kv);
  });
  return bytes;
}

void print_plan_json(const Plan& plan, model::KvFormat kv, uint64_t kv_host, std::ostream& out) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Device& d : plan.devices) {
    list.push_back({{"device", d.name},
                    {"description", d.what},
                    {"weights_bytes", d.needed.weights},
                    {"kv_bytes", d.needed.kv},
                    {"states_bytes", d.needed.states},
                    {"in_file_bytes", d.needed.in_file},
                    {"workspace_bytes", d.needed.workspace},
                    {"needed_bytes", d.needed.total()},
                    {"free_bytes", d.free},
                    {"fits", d.fits()},
                    {"largest_context", d.largest}});
    if (!d.problem.empty()) list.back()["problem"] = d.problem;
    if (!d.no_split.empty()) list.back()["no_split"] = d.no_split;
    if (const auto& split = d.split)
      list.back()["split"] = {{"text", split->text},
                              {"gpu_layers", split->cut.gpu_layers},
                              {"layers", plan.model.layers.size()},
                              {mixtures_of(plan.model) ? "cpu_experts" : "cpu_feed_forwards", split->cut.moved},
                              {"head", split->cut.head_on_gpu ? d.name : "cpu"},
                              {"gpu_bytes", split->on_gpu.total()},
                              {"cpu_bytes", split->on_cpu.total()},
                              {"context", split->context},
                              {"rows", split->limits.rows},
                              {"tokens_per_second", 1 / split->seconds}};
  }
  nlohmann::ordered_json json{{"model", plan.model.name},
                              {"context", plan.model.context},
                              {"trained_context", plan.trained},
                              {"kv", name_of(kv)},
                              {"kv_bytes_per_token", token_bytes(plan.model, kv).all},
                              {"kv_window", model::windows_of(plan.model).longest()},
                              {"kv_window_bytes_per_token", token_bytes(plan.model, kv).windows},
                              {"kv_host_bytes", kv_host},
                              {"devices", list}};
  if (!plan.no_gpu.empty()) json["no_gpu"] = plan.no_gpu;
  out << json.dump(2) << '\n';
}

// False if the model fits on no device.
bool print_plan(const PlanOptions& options, std::ostream& out) {
  const Plan plan(options);
  if (options.json) {
    print_plan_json(plan, options.device.kv, options.kv.host, out);
  } else {
    const TokenBytes bytes = token_bytes(plan.model, options.device.kv);
    out << fmt::format("{}: context of {} tokens ({}), KV cache in {}, {} bytes a token{}\n", plan.model.name,
                       plan.model.context,
                       plan.trained ? fmt::format("trained for {}", plan.trained) : "trained for an unknown one",
                       name_of(options.device.kv), bytes.all,
                       bytes.windows ? fmt::format(", {} of them for the last {} of a text only", bytes.windows,
                                                   model::windows_of(plan.model).longest())
                                     : "");
    print_plan_table(plan.devices, out);
    if (options.kv.host)
      out << fmt::format("KV store: {} of this machine's memory, which are not free above\n",
                         bytes_text(double(options.kv.host)));
    if (!plan.no_gpu.empty()) out << fmt::format("no GPU: {}\n", plan.no_gpu);
  }
  return std::any_of(plan.devices.begin(), plan.devices.end(), [](const Device& d) { return d.runs(); });
}

}  // namespace

void describe_plan(CLI::App& program, std::ostream& out, int& status) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = program.add_subcommand("plan", "Show the memory a model needs and whether it fits");
  describe_model(*command, options->model);
  command->add_option("--rows", options->rows, "Maximum tokens in a batch; 0: 512 on the CPU, 2048 on a GPU")
      ->type_name("N");
  describe_json(*command, options->json);
  describe_device(*command, options->device);
  describe_kv_host(*command, options->kv);
  command->add_flag("--mtp", options->device.mtp, "With the model's own head for multi-token prediction");
  command->callback([options, &out, &status] {
    leave_room_for_store(options->kv, options->device);
    status = print_plan(*options, out) ? 0 : 1;
  });
}

}  // namespace heddle

// Options are described here, once for all commands.
#include "main/device/device_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cuda/device.h"
#include "main/device/open_model.h"

namespace heddle {
namespace {

constexpr const char* models_help =
    "Models to serve, or a folder of them: as MODEL of the other commands. Several are loaded when requests need them";
constexpr const char* model_help =
    "GGUF file, folder of safetensors, name of a model (`heddle models` lists them), or weft, the model in the program";

// A number of layers; unset for "auto".
std::optional<uint32_t> layers_named(const char* option, const std::string& text) {
  if (text == "auto") return std::nullopt;
  uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || number == all_layers)
    throw Error("{}: expected a number of layers or auto, found {}", option, in_quotes(text));
  return number;
}

}  // namespace

void describe_device(CLI::App& command, DeviceOptions& options) {
  command
      .add_option("--device", options.device,
                  "auto: the first GPU that can run the model, else the CPU; or cpu, or cuda:N")
      ->type_name("NAME");
  describe_gpu_as(command);
  command.add_option("--ctx", options.context, "Context length in tokens; 0: as trained, or less if memory is short")
      ->type_name("N");
  command.add_option("--threads", options.threads, "CPU threads; 0: one per core")->type_name("N");
  command.add_option("--backend", options.backend, "CPU backend: cpu, or reference (plain f32, slow)")
      ->type_name("NAME");
  command.add_option("--cpu-isa", options.isa, "Instruction set of the cpu backend: auto, or one this machine has")
      ->type_name("NAME");
  command.add_flag("--no-repack", options.no_repack,
                   "Leave weights in the file and repack them at each use: slower, for models larger than memory; CPU");
  describe_split(command, options);
  command.add_flag("--exact", options.exact, "Do not quantise activations");
  command.add_flag("--deterministic", options.deterministic,
                   "Make the result of a token independent of the rest of its batch; slower; always so on the CPU");
  command
      .add_option_function<std::string>(
          "--kv", [&options](const std::string& name) { options.kv = kv_named(name); },
          "KV cache format: f16, or q8 with about half the bytes")
      ->default_str(name_of(options.kv))
      ->type_name("FORMAT");
  command.add_flag("--no-selftest", options.no_selftest, "Do not test a GPU on a part of the model before using it");
}

void describe_gpu_as(CLI::App& command) {
  cuda::treat_gpus_as("");  // without the option as what they are, also after another command line of this process
  command
      .add_option_function<std::string>(
          "--gpu-as", [](const std::string& target) { cuda::treat_gpus_as(target); },
          "Treat the GPU as one of this target, such as sm_86: its code, its limits")
      ->type_name("TARGET")
      ->group("");
}

void describe_split(CLI::App& command, DeviceOptions& options) {
  command
      .add_option_function<std::string>(
          "--gpu-layers",
          [&options](const std::string& text) { options.gpu_layers = layers_named("--gpu-layers", text); },
          "Layers of the model on the GPU, from the first on; the others run on the CPU. auto: all that fit")
      ->default_str("auto")
      ->type_name("N");
  command
      .add_option_function<std::vector<std::string>>(
          "--cpu-experts",
          [&options](const std::vector<std::string>& text) {
            if (text.empty() || text[0].empty() || text[0] == "all")
              options.cpu_experts = all_layers;
            else
              options.cpu_experts = layers_named("--cpu-experts", text[0]);
          },
          "Compute the experts of N layers on the CPU, without a number those of all; all else is the GPU's. auto: "
          "those that do not fit there")
      ->expected(0, 1)
      ->type_name("[N]");
  command
      .add_option_function<std::string>(
          "--gpu-memory",
          [&options](const std::string& text) { options.gpu_memory = bytes_named(text, "--gpu-memory"); },
          "Memory of the GPU that may be used, such as 8GB; default: all that is free")
      ->type_name("SIZE");
  command
      .add_option_function<std::string>(
          "--cpu-memory",
          [&options](const std::string& text) { options.cpu_memory = bytes_named(text, "--cpu-memory"); },
          "Memory of the system that may be used, such as 8GB; default: all that is free")
      ->type_name("SIZE");
}

void describe_draft(CLI::App& command, DeviceOptions& options) {
  CLI::Option* draft =
      command
          .add_option_function<std::string>(
              "--draft",
              [&options](const std::string& name) {
                if (name.empty()) throw CLI::ValidationError("--draft", "expected a model, found an empty name");
                options.draft = name;
              },
              "Small model of the same vocabulary that proposes tokens, on the same device; the answers stay the same "
              "(on a GPU: with --deterministic)")
          ->type_name("MODEL");
  command
      .add_flag("--mtp", options.mtp,
                "Propose tokens by the model's own head for multi-token prediction (MTP, nextn), if it has one; the "
                "answers stay the same, as with --draft")
      ->excludes(draft);
  command
      .add_option_function<uint32_t>(
          "--draft-tokens", [&options](uint32_t count) { options.draft_tokens = count; },
          "Maximum tokens that the draft or the head proposes at once; default: 8, or 3 with --mtp")
      ->type_name("N");
}

CLI::Option* describe_model(CLI::App& command, std::string& name) {
  name = own_model_name;
  return command.add_option("MODEL", name, model_help)->type_name("");
}
CLI::Option* describe_models_to_serve(CLI::App& command, std::vector<std::string>& names) {
  names = {own_model_name};
  return command.add_option("MODEL", names, models_help)->type_name("")->expected(-1);
}
CLI::Option* describe_required_model(CLI::App& command, std::string& name) {
  return command.add_option("MODEL", name, model_help)->type_name("")->required();
}

}  // namespace heddle

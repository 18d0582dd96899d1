// Names of devices are read here, once for all commands.
#include "main/device/device_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"

namespace heddle {

model::KvFormat kv_named(const std::string& name) {
  if (name == "f16") return model::KvFormat::f16;
  if (name == "q8") return model::KvFormat::q8;
  throw Error("--kv: expected f16 or q8, found {}", in_quotes(name));
}
const char* name_of(model::KvFormat kv) { return kv == model::KvFormat::q8 ? "q8" : "f16"; }

void describe_device(CLI::App& command, DeviceOptions& options) {
  command
      .add_option("--device", options.device,
                  "auto (the default): the first GPU that can run the model, else the CPU; or cpu, or cuda:N")
      ->type_name("NAME");
  command.add_option("--ctx", options.context, "Tokens the model may see at once; without it, what it was trained for")
      ->type_name("N");
  command.add_option("--threads", options.threads, "On the CPU; 0: one per core")->type_name("N");
  command
      .add_option("--backend", options.backend,
                  "On the CPU: cpu, or reference: plain f32, slow, what others are held to")
      ->type_name("NAME");
  command.add_option("--cpu-isa", options.isa, "Instructions of the cpu backend: auto, or one that this machine has")
      ->type_name("NAME");
  command.add_flag("--exact", options.exact, "Do not quantise activations");
  command.add_flag(
      "--deterministic", options.deterministic,
      "What is computed for a token does not depend on what is computed beside it, nor on how a prompt was "
      "cut; slower. On the CPU it is always so");
  command
      .add_option_function<std::string>(
          "--kv", [&options](const std::string& name) { options.kv = kv_named(name); },
          "What the KV cache keeps: f16 (the default), or q8, about half the bytes")
      ->type_name("FORMAT");
  command.add_flag("--no-selftest", options.no_selftest, "Do not try a GPU on a piece of the model before it is used");
}

CLI::Option* describe_model(CLI::App& command, std::string& path) {
  return command
      .add_option("model", path, "A GGUF file or a folder of safetensors; without it, weft, which is in the program")
      ->type_name("");
}

std::optional<uint32_t> cuda_number(const std::string& device) {
  const std::string prefix = "cuda:";
  if (!device.starts_with(prefix)) return std::nullopt;
  const char *begin = device.data() + prefix.size(), *end = device.data() + device.size();
  uint32_t number = 0;
  const auto read = std::from_chars(begin, end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

WantedDevice wanted_device(const DeviceOptions& options) {
  const std::optional<uint32_t> gpu = cuda_number(options.device);
  if (!gpu && options.device != "auto" && options.device != "cpu")
    throw Error("--device: expected auto, cpu or cuda:N with a number of `heddle devices`, found {}",
                in_quotes(options.device));
  if (!options.backend.empty() && options.backend != "cpu" && options.backend != "reference")
    throw Error("--backend: expected cpu or reference, found {}", in_quotes(options.backend));
  if (gpu && !options.backend.empty())
    throw Error("--backend {} runs on the CPU: expected --device cpu or auto with it, found {}", options.backend,
                options.device);
  return {.cpu = options.device == "cpu" || !options.backend.empty(), .gpu = gpu};
}

}  // namespace heddle

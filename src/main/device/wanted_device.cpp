// Names of devices and formats, and options that exclude each other.
#include <charconv>

#include "base/error.h"
#include "base/utf8.h"
#include "main/device/device_options.h"

namespace heddle {
namespace {

constexpr uint32_t max_draft_tokens = 64;

}  // namespace

model::KvFormat kv_named(const std::string& name) {
  if (name == "f16") return model::KvFormat::f16;
  if (name == "q8") return model::KvFormat::q8;
  throw Error("--kv: expected f16 or q8, found {}", in_quotes(name));
}
const char* name_of(model::KvFormat kv) { return kv == model::KvFormat::q8 ? "q8" : "f16"; }

std::optional<uint32_t> cuda_number(const std::string& device) {
  const std::string prefix = "cuda:";
  if (!device.starts_with(prefix)) return std::nullopt;
  const char *begin = device.data() + prefix.size(), *end = device.data() + device.size();
  uint32_t number = 0;
  const auto read = std::from_chars(begin, end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

std::string option_for_cpu(const DeviceOptions& options) {
  if (options.device == "cpu") return "--device cpu";
  return options.backend.empty() ? "--no-repack" : "--backend " + options.backend;
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
  if (options.proposals() == 0 || options.proposals() > max_draft_tokens)
    throw Error("--draft-tokens: expected 1 to {}, found {}", max_draft_tokens, options.proposals());
  if (options.draft_tokens && options.draft.empty() && !options.mtp)
    throw Error("--draft-tokens: expected --draft or --mtp with it, found neither");
  if (gpu && options.no_repack)
    throw Error("--no-repack is for the CPU: expected --device cpu or auto with it, found {}", options.device);
  const bool cpu = options.device == "cpu" || !options.backend.empty() || options.no_repack;
  const char* for_gpus = options.gpu_layers    ? "--gpu-layers"
                         : options.cpu_experts ? "--cpu-experts"
                         : options.gpu_memory  ? "--gpu-memory"
                                               : nullptr;
  if (cpu && for_gpus)
    throw Error("{} is for GPUs: expected --device auto or cuda:N with it, found {}", for_gpus,
                option_for_cpu(options));
  return {.cpu = cpu, .gpu = gpu};
}

}  // namespace heddle

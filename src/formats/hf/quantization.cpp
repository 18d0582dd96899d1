// The table of methods.
#include "formats/hf/quantization.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "formats/hf/quantized/methods.h"

namespace heddle::formats::hf {
namespace {

constexpr struct Method {
  std::string_view name;
  std::string (*unpack)(Config&, PackedFiles&);
} methods[] = {
    {"awq", unpack_awq},
    {"bitsandbytes", unpack_bitsandbytes},
    {"compressed-tensors", unpack_compressed_tensors},
    {"fbgemm_fp8", unpack_fp8},
    {"fp8", unpack_fp8},
    {"gptq", unpack_gptq},
    {"modelopt", unpack_modelopt},
    {"mxfp4", unpack_mxfp4},
};

// Of the whole model, or of the text model in it.
const Json* find_quantization(const Json& config) {
  for (const char* key : {"quantization_config", "compression_config"})
    if (const auto found = config.find(key); found != config.end() && !found->is_null()) return &*found;
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? find_quantization(*text) : nullptr;
}

}  // namespace

std::string unpack_quantized(const Json& config, std::vector<Tensor>& tensors, std::vector<Unreadable>& unreadable,
                             const std::string& source) {
  const Json* found = find_quantization(config);
  if (!found) return {};
  Config options(*found, source + ": config.json: quantization_config");
  // The first folders of bitsandbytes do not name it.
  const bool is_old = options.boolean("load_in_4bit", false) || options.boolean("load_in_8bit", false);
  const std::string name = options.string("quant_method", is_old ? "bitsandbytes" : "");
  for (const Method& method : methods) {
    if (method.name != name) continue;
    PackedFiles files(tensors, unreadable, source);
    std::string described = method.unpack(options, files);
    return files.finish() ? described : "";
  }
  std::vector<std::string_view> names;
  for (const Method& method : methods) names.push_back(method.name);
  options.refuse("quant_method", fmt::format("one of {}", fmt::join(names, ", ")));
}

}  // namespace heddle::formats::hf

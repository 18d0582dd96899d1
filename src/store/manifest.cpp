#include "store/manifest.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "store/limits.h"
#include "store/names.h"

namespace heddle::store {
namespace {

constexpr std::string_view media_types = "application/vnd.ollama.image.";

struct Layer {
  std::string kind;  // "model", "template"
  std::string sha256;
  uint64_t bytes;
};

Layer read_layer(const Json& layer, std::string_view where) {
  const auto field = [&](const char* key) -> const Json& {
    const auto found = layer.is_object() ? layer.find(key) : layer.end();
    if (!layer.is_object() || found == layer.end())
      throw Error("{}: layers: expected objects with {}, found {}", where, key, shortened(layer));
    return *found;
  };
  const Json &type = field("mediaType"), &digest = field("digest"), &size = field("size");
  if (!type.is_string()) throw Error("{}: layers: mediaType: expected a string, found {}", where, shortened(type));
  const std::string text = digest.is_string() ? digest.get<std::string>() : "";
  if (!text.starts_with("sha256:") || !is_sha256(std::string_view(text).substr(7)))
    throw Error("{}: layers: digest: expected sha256: and 64 hexadecimal digits, found {}", where, shortened(digest));
  if (!size.is_number_unsigned() || size.get<uint64_t>() > max_file_bytes)
    throw Error("{}: layers: size: expected a number of bytes up to {}, found {}", where, max_file_bytes,
                shortened(size));
  const std::string kind = type.get<std::string>();
  return {kind.starts_with(media_types) ? kind.substr(media_types.size()) : kind, text.substr(7), size.get<uint64_t>()};
}

}  // namespace

Manifest read_manifest(std::string_view text, std::string_view where) {
  const Json json = parse_json(text, where);
  const auto layers = json.is_object() ? json.find("layers") : json.end();
  if (!json.is_object() || layers == json.end() || !layers->is_array())
    throw Error("{}: expected a manifest with an array of layers, found {}", where, shortened(json));
  if (layers->size() > max_files)
    throw Error("{}: layers: expected up to {}, found {}", where, max_files, layers->size());
  std::vector<Layer> models;
  std::string adapter, tensor;
  for (const Json& each : *layers) {
    Layer layer = read_layer(each, where);
    if (layer.kind == "adapter") adapter = layer.kind;
    if (layer.kind == "tensor") tensor = layer.kind;
    if (layer.kind == "model") models.push_back(std::move(layer));
  }
  if (!adapter.empty()) return {.problem = "it has an adapter (LoRA), which heddle does not apply"};
  if (models.size() == 1) return {.sha256 = models[0].sha256, .bytes = models[0].bytes, .problem = {}};
  if (!tensor.empty()) return {.problem = "its tensors are single blobs, not a GGUF file"};
  return {.problem = models.empty() ? "it has no GGUF file" : "it has several GGUF files"};
}

}  // namespace heddle::store

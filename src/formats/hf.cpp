// The class of the model decides how config.json is described; the description is bound to the tensors of the files.
#include "formats/hf.h"

#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/hf/bind.h"
#include "formats/hf/classes.h"
#include "formats/hf/quantization.h"

namespace heddle::formats {
namespace {

// Of "org/models--org--name", "name/" or "name/model.safetensors": the folder's name.
std::string model_name(const std::filesystem::path& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // a slash at the end
  if (std::filesystem::is_regular_file(folder)) folder = folder.parent_path();
  return folder.filename().string();
}

std::string class_name(const Json& config) {
  const auto names = config.find("architectures");
  if (names != config.end() && names->is_array() && !names->empty() && names->front().is_string())
    return names->front().get<std::string>();
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? "of type " + type->get<std::string>() : "unnamed";
}

// What the description wants as a list of metadata, read from tensors of one value each.
void put_lists(Metadata& to, const hf::Description& description, const std::vector<Tensor>& tensors,
               const std::string& source) {
  std::map<std::string_view, const Tensor*> by_name;
  if (!description.lists.empty())
    for (const Tensor& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  for (const auto& [key, names] : description.lists) {
    std::vector<float> values;
    for (const std::string& name : names) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) throw Error("{}: 1 tensors are missing: {}", source, name);
      const Tensor& tensor = *found->second;
      if (tensor.values() != 1 || tensor.format > quant::Format::bf16)
        throw Error("{}: tensor {}: expected 1 value of f32, f16 or bf16, found {} of {}", source, name,
                    tensor.values(), quant::name(tensor.format));
      quant::decode(tensor.format, tensor.view.data(), 1, &values.emplace_back());
    }
    to.set(key, Array::of(values));
  }
}

}  // namespace

void apply_hf_config(Checkpoint& checkpoint, const Json& config) {
  const std::string source = checkpoint.path.string();
  hf::Config(config, source + ": config.json");  // an object
  const std::string name = class_name(config);
  if (!hf::is_known(name)) {
    checkpoint.unknown_class = name;
    checkpoint.metadata = Metadata(source);
    checkpoint.metadata.set("general.name", model_name(checkpoint.path));
    return;
  }
  hf::Description description = hf::describe(config, source + ": config.json");
  checkpoint.quantization = hf::unpack_quantized(config, checkpoint.tensors, checkpoint.unreadable, source);
  checkpoint.warnings = std::move(description.warnings);
  if (description.text_only) checkpoint.text_part_of = name;
  Metadata lists(source);
  put_lists(lists, description, checkpoint.tensors, source);
  checkpoint.tensors = hf::bind(description, std::move(checkpoint.tensors), checkpoint.unreadable, source);
  checkpoint.unreadable.clear();  // buffers that are not needed, or bind() would have thrown
  checkpoint.metadata = Metadata(source);
  for (const auto& [key, value] : description.metadata.all()) checkpoint.metadata.set(key, value);
  for (const auto& [key, value] : lists.all()) checkpoint.metadata.set(key, value);
  checkpoint.metadata.set("general.name", model_name(checkpoint.path));
  checkpoint.index();
}

std::string hf_known_classes() { return fmt::format("{}", fmt::join(hf::known_classes(), ", ")); }

void apply_hf_pooling(Checkpoint& checkpoint, const Json& pooling, const std::string& where) {
  if (!checkpoint.unknown_class.empty()) return;
  hf::Config config(pooling, where);
  config.ignore({"word_embedding_dimension", "include_prompt"});
  constexpr std::pair<std::string_view, uint32_t> modes[] = {// as GGUF numbers them
                                                             {"pooling_mode_mean_tokens", 1},
                                                             {"pooling_mode_cls_token", 2},
                                                             {"pooling_mode_lasttoken", 3}};
  std::optional<uint32_t> type;
  for (const auto& [key, number] : modes) {
    if (!config.boolean(key, false)) continue;
    if (type) config.refuse(key, "one mode of pooling, not several");
    type = number;
  }
  config.finish();
  checkpoint.warnings.insert(checkpoint.warnings.end(), config.warnings().begin(), config.warnings().end());
  if (type) checkpoint.metadata.set(std::string(checkpoint.architecture()) + ".pooling_type", *type);
}

std::string hf_pooling_folder(const Json& modules, const std::string& where) {
  if (!modules.is_array()) throw Error("{}: expected a list of modules, found {}", where, modules.type_name());
  std::string folder;
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto text = [&](const char* name) {
      const bool there = modules[i].is_object() && modules[i].contains(name) && modules[i][name].is_string();
      return there ? modules[i][name].get<std::string>() : std::string();
    };
    const std::string type = text("type");
    const std::string_view last = std::string_view(type).substr(type.rfind('.') + 1);
    if (last != "Transformer" && last != "Pooling" && last != "Normalize")
      throw Error("{}: [{}].type: expected a Transformer, Pooling or Normalize, found {}", where, i, in_quotes(type));
    if (last == "Pooling") folder = text("path");
  }
  return folder;
}

}  // namespace heddle::formats

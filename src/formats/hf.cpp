// The class of the model chooses the page; the page is bound to the tensors of the files.
#include "formats/hf.h"

#include "formats/hf/bind.h"
#include "formats/hf/pages.h"

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

}  // namespace

void apply_hf_config(Checkpoint& checkpoint, const Json& config) {
  const std::string source = checkpoint.path.string();
  hf::Config(config, source + ": config.json");  // an object
  const std::string name = class_name(config);
  if (!hf::page_of(name)) {
    checkpoint.unknown_class = name;
    checkpoint.metadata = Metadata(source);
    checkpoint.metadata.set("general.name", model_name(checkpoint.path));
    return;
  }
  hf::Description description = hf::describe(config, source + ": config.json");
  checkpoint.tensors = hf::bind(description, std::move(checkpoint.tensors), checkpoint.unreadable, source);
  checkpoint.unreadable.clear();  // buffers that nobody needs, or bind() had thrown
  checkpoint.metadata = Metadata(source);
  for (const auto& [key, value] : description.metadata.all()) checkpoint.metadata.set(key, value);
  checkpoint.metadata.set("general.name", model_name(checkpoint.path));
  checkpoint.index();
}

}  // namespace heddle::formats
